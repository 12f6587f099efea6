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
from noetl_activities.sinks.ledger import StoreResult
from noetl_activities.sinks.requests import OutcomeLookup, SinkRequest
from noetl_activities.tool import ToolContext

__all__ = ["SinkBatches"]

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")
PerformBatch = Callable[[dict[str, Any], Sequence[BatchedRequest[RequestT, ResponseT]]], Awaitable[None]]


class SinkBatches:
    """Implements ``sinks.Sinks``."""

    def __init__(self) -> None:
        self._batchers: dict[Hashable, Batcher[Any, Any]] = {}

    async def find_outcome(self, lookup: OutcomeLookup, context: ToolContext) -> str | None:
        """See ``sinks.find_outcome``."""
        if lookup.kind == "postgres":
            from noetl_activities.postgres.connect import login_arguments
            from noetl_activities.sinks.postgres_batch import LedgerKey, find_batch

            login = await login_arguments(lookup.auth, lookup.config, context)
            response = await self._submit(find_batch, login, "", LedgerKey(lookup.key, lookup.repetition), 0)
            if response is not None:
                return response.outcome
        return await sinks.find_outcome(lookup, context)

    async def store(self, request: SinkRequest, context: ToolContext) -> StoreResult:
        """See ``sinks.store``."""
        if request.kind == "postgres":
            from noetl_activities.postgres.connect import login_arguments
            from noetl_activities.sinks.postgres_batch import batch_key, store_batch

            target = batch_key(request)
            if target is not None:
                login = await login_arguments(request.auth, request.config, context)
                size = len(request.entry.outcome or "")
                store_result = await self._submit(store_batch, login, target, request, size)
                if store_result is not None:
                    return store_result
        return await sinks.store(request, context)

    async def _submit(
        self,
        perform: PerformBatch[RequestT, ResponseT],
        login: dict[str, Any],
        target: str,
        request: RequestT,
        size: int,
    ) -> ResponseT | None:
        """Add a request of ``size`` bytes to a batch of its login and target, and return the response to it. None if
        the caller has to perform the request itself.
        """
        batcher_key = perform, frozenset(login.items()), target
        batcher: Batcher[RequestT, ResponseT] | None = self._batchers.get(batcher_key)
        if batcher is None:
            batcher = Batcher(partial(perform, login), partial(self._batchers.pop, batcher_key))
            self._batchers[batcher_key] = batcher
        return await batcher.submit(request, size)
