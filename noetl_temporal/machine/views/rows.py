"""Results of databases: rows, also of one statement among several."""

from __future__ import annotations

from typing import Any

from noetl_compiler.graph import Json
from noetl_temporal.machine.views.plain import ResultView

__all__ = ["RowsView"]


class StatementView(ResultView):
    """The result of one SQL statement.

    ``{rows, columns, row_count}`` of one statement; an index is a row.
    """

    __slots__ = ()

    def _missing(self, key: Any) -> Any:
        return self._result["rows"][key] if isinstance(key, int) else super()._missing(key)


class RowsView(ResultView):
    """The result of a SQL call.

    ``{rows, columns, row_count, ...}``: ``command_<i>`` is the i-th statement, an index a row.
    """

    __slots__ = ()

    def _missing(self, key: Any) -> Any:
        if isinstance(key, int):
            return self._result["rows"][key]
        if isinstance(key, str) and key.startswith("command_"):
            return self._command(key)
        return super()._missing(key)

    def _command(self, key: str) -> Any:
        """Return the result of one statement, whose rows can be read by index too."""
        statements: list[Json] = self._result.get("statements") or [self._first()]
        index = key.removeprefix("command_")
        if index.isdecimal() and int(index) < len(statements):
            return StatementView(statements[int(index)])
        raise KeyError(key)

    def _first(self) -> Json:
        return {name: self._result.get(name) for name in ("rows", "columns", "row_count")}

    def materialise(self) -> Json:
        return {**self._result, "command_0": self._command("command_0").materialise()}
