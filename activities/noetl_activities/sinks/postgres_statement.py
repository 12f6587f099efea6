"""The statements of a sink: ``$1`` is bound to a list of params; ``:name`` to a mapping, or to each row of the data."""

from __future__ import annotations

import re
from collections.abc import Sequence

from noetl_activities.postgres_connect import Connection
from noetl_activities.postgres_values import Prepared, bound, sendable
from noetl_activities.sinks.data import Row
from noetl_activities.sinks.named_params import bindings, numbered
from noetl_activities.tool import Json

__all__ = ["Statements"]

_COUNT = re.compile(r"(\d+)$")


class Statements:
    """The statements of a sink, in order. Each is prepared when it is first run, and can be run for several calls."""

    def __init__(self, connection: Connection, texts: Sequence[str]) -> None:
        self._connection = connection
        self._texts = texts
        self._prepared: dict[str, tuple[Prepared, list[str]]] = {}

    async def run(self, params: Json, rows: Sequence[Row]) -> int:
        """Run the statements and return the number of changed rows."""
        changed = 0
        for text in self._texts:
            prepared, names = await self._prepare(text)
            for values in bindings(names, params, rows):
                await prepared.fetch(*bound(prepared, values))
                count = _COUNT.search(prepared.get_statusmsg() or "")
                changed += int(count.group(1)) if count else 0
        return changed

    async def _prepare(self, text: str) -> tuple[Prepared, list[str]]:
        if text not in self._prepared:
            sql, names = numbered(text)
            self._prepared[text] = await self._connection.prepare(sendable(sql)), names
        return self._prepared[text]
