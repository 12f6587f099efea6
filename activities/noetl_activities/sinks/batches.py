"""Batches the sinks of calls that run concurrently in one process, such as the items of a frame (semantics.md 26b).

Concurrent look-ups in the ledger of one database are batched, and concurrent writes to one of its tables (batcher.py,
postgres_batch.py). Each call resolves its own credential, so that it knows which secrets to mask in its messages. Calls
with different logins never share a batch.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

from noetl_activities import sinks
from noetl_activities.sinks.batcher import BatchedRequest, Batcher
from noetl_activities.sinks.ledger import Entry, Stored
from noetl_activities.tool import Json, ToolContext

__all__ = ["SinkBatches"]

Request = TypeVar("Request")
Response = TypeVar("Response")
Perform = Callable[[dict[str, Any], Sequence[BatchedRequest[Request, Response]]], Awaitable[None]]


class SinkBatches:
    """Implements ``sinks.Sinks``."""

    def __init__(self) -> None:
        self._batchers: dict[Hashable, Batcher[Any, Any]] = {}

    async def find(
        self, kind: str, config: dict[str, Json], auth: Json, key: str, n: int, context: ToolContext
    ) -> str | None:
        """See ``sinks.find``."""
        if kind == "postgres":
            from noetl_activities.postgres_connect import login_arguments
            from noetl_activities.sinks.postgres_batch import LedgerKey, find_batch

            lookup = await self._submit(
                find_batch, await login_arguments(auth, config, context), "", LedgerKey(key, n), 0
            )
            if lookup is not None:
                return lookup.outcome
        return await sinks.find(kind, config, auth, key, n, context)

    async def store(
        self,
        kind: str,
        config: dict[str, Json],
        mode: str,
        entry: Entry,
        result: Json,
        auth: Json,
        context: ToolContext,
    ) -> Stored:
        """See ``sinks.store``."""
        if kind == "postgres":
            from noetl_activities.postgres_connect import login_arguments
            from noetl_activities.sinks.postgres_batch import SinkRequest, batch_key, store_batch

            request = SinkRequest(config, mode, entry, result)
            target = batch_key(request)
            if target is not None:
                arguments = await login_arguments(auth, config, context)
                stored = await self._submit(store_batch, arguments, target, request, len(entry.outcome or ""))
                if stored is not None:
                    return stored
        return await sinks.store(kind, config, mode, entry, result, auth, context)

    async def _submit(
        self,
        perform: Perform[Request, Response],
        login_arguments: dict[str, Any],
        target: str,
        request: Request,
        size: int,
    ) -> Response | None:
        """Return the response for this call; None if it has to perform the request itself."""
        name = perform, frozenset(login_arguments.items()), target
        batcher: Batcher[Request, Response] | None = self._batchers.get(name)
        if batcher is None:
            batcher = Batcher(partial(perform, login_arguments), partial(self._batchers.pop, name))
            self._batchers[name] = batcher
        return await batcher.submit(request, size)
