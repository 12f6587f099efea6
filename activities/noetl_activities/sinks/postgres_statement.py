"""The sink's own statements: ``$1`` takes a list of params; ``:name`` a map of them, or the data, once for each row."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import cast

from noetl_activities.errors import ConfigError
from noetl_activities.postgres_connect import Connection
from noetl_activities.postgres_values import bound, sendable
from noetl_activities.sinks.data import Row
from noetl_activities.tool import Json

__all__ = ["run_statements"]

_NAMED = re.compile(
    r"""
    (?P<other> [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
      | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$ | --[^\n]* | /\*.*?\*/ | :: )
    | (?<!\w) : (?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
"""A name is none in a text, a comment, a cast or an array's slice."""

_COUNT = re.compile(r"(\d+)$")


async def run_statements(connection: Connection, texts: Sequence[str], params: Json, rows: Sequence[Row]) -> int:
    """Run them in order; the number of rows they changed."""
    changed = 0
    for text in texts:
        sql, names = _numbered(text)
        prepared = await connection.prepare(sendable(sql))
        for values in _bindings(names, params, rows):
            await prepared.fetch(*bound(prepared, values))
            count = _COUNT.search(prepared.get_statusmsg() or "")
            changed += int(count.group(1)) if count else 0
    return changed


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
        raise ConfigError(f"the statement names :{missing}, which neither params nor the data has")
    return [[row[name] for name in names] for row in sources]
