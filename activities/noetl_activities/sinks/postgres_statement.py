"""The statements of a sink: ``$1`` is bound to a list of params; ``:name`` to a mapping of params, or to each row."""

from __future__ import annotations

import re
from collections.abc import Sequence

from noetl_activities.postgres.connect import Connection
from noetl_activities.postgres.values import Prepared, bind_values, check_statement
from noetl_activities.sinks.data import Row
from noetl_activities.sinks.named_params import bind_names, number_names
from noetl_activities.tool import Json

__all__ = ["Statements"]

_COUNT = re.compile(r"(\d+)$")


class Statements:
    """The statements of a sink, in order. Each is prepared before its first run, and can be run for several calls."""

    def __init__(self, connection: Connection, texts: Sequence[str]) -> None:
        self._connection = connection
        self._texts = texts
        self._prepared: dict[str, tuple[Prepared, list[str]]] = {}

    async def run(self, params: Json, rows: Sequence[Row]) -> int:
        """Run the statements and return the number of changed rows."""
        changed_rows = 0
        for text in self._texts:
            prepared_statement, names = await self._prepare(text)
            for values in bind_names(names, params, rows):
                await prepared_statement.fetch(*bind_values(prepared_statement, values))
                count = _COUNT.search(prepared_statement.get_statusmsg() or "")
                changed_rows += int(count.group(1)) if count else 0
        return changed_rows

    async def _prepare(self, text: str) -> tuple[Prepared, list[str]]:
        if text not in self._prepared:
            sql, names = number_names(text)
            self._prepared[text] = await self._connection.prepare(check_statement(sql)), names
        return self._prepared[text]
