"""Binds ``:name`` in the statements of a sink: to a value of ``params`` if it is a mapping, otherwise to the column of
each row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import cast

from noetl_activities.errors import ConfigError
from noetl_activities.sinks.data import Row
from noetl_activities.tool import Json

__all__ = ["bind_names", "binding_rows", "number_names"]

_NAME_PATTERN = re.compile(
    r"""
    (?P<other> [eE]'(?:[^'\\]|''|\\.)*' | '(?:[^']|'')*' | "(?:[^"]|"")*"
      | \$(?P<tag>\w*)\$ .*? \$(?P=tag)\$ | --[^\n]* | /\*.*?\*/ | :: )
    | (?<!\w) : (?P<name>[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)
"""Matches ``:name``, but not in strings, comments, casts or array slices."""


def number_names(text: str, is_name: Callable[[str], bool] = bool) -> tuple[str, list[str]]:
    """Return the statement with ``$1``, ``$2`` ... instead of its names, and the names in that order. ``is_name`` is
    false for names to leave unchanged.
    """
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None or not is_name(name):
            return match[0]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}"

    return _NAME_PATTERN.sub(number, text), names


def binding_rows(params: Json, rows: Sequence[Row]) -> Sequence[Row]:
    """Return the mappings with the values for the names, one for each execution of the statement."""
    return [cast("Row", params)] if isinstance(params, dict) else rows


def bind_names(names: list[str], params: Json, rows: Sequence[Row]) -> list[list[Json]]:
    """Return the values for each execution of a statement with these names. Raises ConfigError for a missing one."""
    if not names:
        return [list(cast("list[Json]", params))] if isinstance(params, list) else [[]]
    mappings = binding_rows(params, rows)
    missing = next((name for row in mappings for name in names if name not in row), None)
    if missing is not None:
        raise ConfigError(f"the statement uses :{missing}, which is neither in params nor in the data")
    return [[row[name] for name in names] for row in mappings]
