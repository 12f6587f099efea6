"""The statements of a sink: ``$1`` is bound to a list of params; ``:name`` to a mapping, or to each row of the data."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from noetl_activities.errors import ConfigError
from noetl_activities.postgres_connect import Connection
from noetl_activities.postgres_values import Prepared, bound, sendable
from noetl_activities.sinks.data import Row
from noetl_activities.tool import Json

__all__ = ["Statements"]

_NAMED = re.compile(
    r"""
    (?P<other> [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
      | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$ | --[^\n]* | /\*.*?\*/ | :: )
    | (?<!\w) : (?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Matches ``:name``, but not in strings, comments, casts or array slices."""

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
            for values in _bindings(names, params, rows):
                await prepared.fetch(*bound(prepared, values))
                count = _COUNT.search(prepared.get_statusmsg() or "")
                changed += int(count.group(1)) if count else 0
        return changed

    async def _prepare(self, text: str) -> tuple[Prepared, list[str]]:
        if text not in self._prepared:
            sql, names = _numbered(text)
            self._prepared[text] = await self._connection.prepare(sendable(sql)), names
        return self._prepared[text]


def _numbered(text: str) -> tuple[str, list[str]]:
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _NAMED.sub(number, text), names


def _bindings(names: list[str], params: Json, rows: Sequence[Row]) -> list[list[Json]]:
    if not names:
        return [list(cast("list[Json]", params))] if isinstance(params, list) else [[]]
    sources = [cast("Row", params)] if isinstance(params, dict) else rows
    missing = next((name for row in sources for name in names if name not in row), None)
    if missing is not None:
        raise ConfigError(f"the statement uses :{missing}, which is neither in params nor in the data")
    return [[row[name] for name in names] for row in sources]
