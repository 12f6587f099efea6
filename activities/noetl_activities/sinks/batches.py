"""The sinks of calls that run beside each other in one process, as the items of a frame do (semantics.md 26b).

What several of them ask of the ledger of one database, or store in one table of it, is done for all at once
(gathering.py, postgres_batch.py). Each call finds its credential by itself, so that it knows what to keep out of its
messages, and logins that differ share nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from functools import partial
from typing import Any, TypeVar

from noetl_activities import sinks
from noetl_activities.sinks.gathering import Gathering, Waiting
from noetl_activities.sinks.ledger import Entry, Stored
from noetl_activities.tool import Json, ToolContext

__all__ = ["SinkBatches"]

Wanted = TypeVar("Wanted")
Answer = TypeVar("Answer")
Perform = Callable[[dict[str, Any], Sequence[Waiting[Wanted, Answer]]], Awaitable[None]]


class SinkBatches:
    """Implements ``sinks.Sinks``."""

    def __init__(self) -> None:
        self._gatherings: dict[Hashable, Gathering[Any, Any]] = {}

    async def find(
        self, kind: str, config: dict[str, Json], auth: Json, key: str, n: int, context: ToolContext
    ) -> str | None:
        """See ``sinks.find``."""
        if kind == "postgres":
            from noetl_activities.postgres_connect import login
            from noetl_activities.sinks.postgres_batch import Call, find_batch

            found = await self._together(find_batch, await login(auth, config, context), "", Call(key, n), 0)
            if found is not None:
                return found.outcome
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
            from noetl_activities.postgres_connect import login
            from noetl_activities.sinks.postgres_batch import Rows, place_of, store_batch

            rows = Rows(config, mode, entry, result)
            place = place_of(rows)
            if place is not None:
                opened_with = await login(auth, config, context)
                stored = await self._together(store_batch, opened_with, place, rows, len(entry.outcome or ""))
                if stored is not None:
                    return stored
        return await sinks.store(kind, config, mode, entry, result, auth, context)

    async def _together(
        self, perform: Perform[Wanted, Answer], login: dict[str, Any], place: str, wanted: Wanted, size: int
    ) -> Answer | None:
        """What the batch gives for this call; None when it has to see for itself."""
        name = perform, frozenset(login.items()), place
        gathering: Gathering[Wanted, Answer] | None = self._gatherings.get(name)
        if gathering is None:
            gathering = Gathering(partial(perform, login), partial(self._gatherings.pop, name))
            self._gatherings[name] = gathering
        return await gathering.want(wanted, size)
