"""Performs the sinks of concurrent calls of one process, such as the items of a frame, in batches (semantics.md 26b).

A batch combines look-ups in the ledger of one database, or writes to one of its tables (batcher.py, postgres_batch.py).
Each call resolves its own credential, so that it knows which secrets to mask in its messages. Calls with different
logins never share a batch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

from noetl_activities import sinks
from noetl_activities.sinks.batcher import BatchedRequest, Batcher
from noetl_activities.sinks.ledger import Entry, StoreResult
from noetl_activities.tool import Json, ToolContext

__all__ = ["SinkBatches"]

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
Perform = Callable[[dict[str, Any], Sequence[BatchedRequest[RequestT, ResponseT]]], Awaitable[None]]


class SinkBatches:
    """Implements ``sinks.Sinks``."""

    def __init__(self) -> None:
        self._batchers: dict[Hashable, Batcher[Any, Any]] = {}

    async def find_outcome(
        self, kind: str, config: dict[str, Json], auth: Json, key: str, repetition: int, context: ToolContext
    ) -> str | None:
        """See ``sinks.find_outcome``."""
        if kind == "postgres":
            from noetl_activities.postgres.connect import login_arguments
            from noetl_activities.sinks.postgres_batch import LedgerKey, find_batch

            lookup = await self._submit(
                find_batch, await login_arguments(auth, config, context), "", LedgerKey(key, repetition), 0
            )
            if lookup is not None:
                return lookup.outcome
        return await sinks.find_outcome(kind, config, auth, key, repetition, context)

    async def store(
        self,
        kind: str,
        config: dict[str, Json],
        mode: str,
        entry: Entry,
        result: Json,
        auth: Json,
        context: ToolContext,
    ) -> StoreResult:
        """See ``sinks.store``."""
        if kind == "postgres":
            from noetl_activities.postgres.connect import login_arguments
            from noetl_activities.sinks.postgres_batch import SinkRequest, batch_key, store_batch

            request = SinkRequest(config, mode, entry, result)
            target = batch_key(request)
            if target is not None:
                arguments = await login_arguments(auth, config, context)
                store_result = await self._submit(store_batch, arguments, target, request, len(entry.outcome or ""))
                if store_result is not None:
                    return store_result
        return await sinks.store(kind, config, mode, entry, result, auth, context)

    async def _submit(
        self,
        perform: Perform[RequestT, ResponseT],
        login: dict[str, Any],
        target: str,
        request: RequestT,
        size: int,
    ) -> ResponseT | None:
        """Return the response for this call; None if it has to perform the request itself."""
        batcher_key = perform, frozenset(login.items()), target
        batcher: Batcher[RequestT, ResponseT] | None = self._batchers.get(batcher_key)
        if batcher is None:
            batcher = Batcher(partial(perform, login), partial(self._batchers.pop, batcher_key))
            self._batchers[batcher_key] = batcher
        return await batcher.submit(request, size)
