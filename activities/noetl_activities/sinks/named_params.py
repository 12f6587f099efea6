"""Names in the statements of a sink: ``:name`` is bound to a value of ``params``, or else to that of each row."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import cast

from noetl_activities.errors import ConfigError
from noetl_activities.sinks.data import Row
from noetl_activities.tool import Json

__all__ = ["bindings", "numbered", "sources_of"]

_NAMED = re.compile(
    r"""
    (?P<other> [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
      | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$ | --[^\n]* | /\*.*?\*/ | :: )
    | (?<!\w) : (?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Matches ``:name``, but not in strings, comments, casts or array slices."""


def numbered(text: str, is_name: Callable[[str], bool] = bool) -> tuple[str, list[str]]:
    """Return the statement with ``$1``, ``$2`` in the place of its names, and the names in that order."""
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None or not is_name(name):
            return match[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _NAMED.sub(number, text), names


def sources_of(params: Json, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the mappings that names are bound from, each for one execution of the statement."""
    return [cast("Row", params)] if isinstance(params, dict) else rows


def bindings(names: list[str], params: Json, rows: Sequence[Row]) -> list[list[Json]]:
    """Return the values for each execution of a statement with these names. Raises ConfigError for a missing one."""
    if not names:
        return [list(cast("list[Json]", params))] if isinstance(params, list) else [[]]
    sources = sources_of(params, rows)
    missing = next((name for row in sources for name in names if name not in row), None)
    if missing is not None:
        raise ConfigError(f"the statement uses :{missing}, which is neither in params nor in the data")
    return [[row[name] for name in names] for row in sources]
