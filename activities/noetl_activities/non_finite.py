"""Replaces NaN and infinity, which JSON cannot represent, in results of databases, servers and Python code.

They become null, with a warning in the log of the run: ``meta.warning`` of the outcome (semantics.md 19).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

from noetl_activities.outcome import Json

__all__ = ["replace_non_finite"]


def replace_non_finite(value: Json) -> dict[str, Json]:
    """Replace NaN and infinity with None in lists and mappings, in place.

    Returns the ``meta`` of the outcome: ``{warning}``, or empty if nothing was replaced.
    """
    count = 0
    level: list[Any] = [value]
    while level:
        next_level: list[Any] = []
        for container in level:
            non_finite = [
                key for key, value in _entries(container) if value.__class__ is float and not math.isfinite(value)
            ]
            for key in non_finite:
                container[key] = None
            count += len(non_finite)
            next_level += [
                value for _, value in _entries(container) if value.__class__ is dict or value.__class__ is list
            ]
        level = next_level
    return {"warning": _warning_text(count)} if count else {}


def _entries(container: Any) -> Iterable[tuple[Any, Any]]:
    if container.__class__ is dict:
        return cast("dict[str, Any]", container).items()
    return enumerate(cast("list[Any]", container))


def _warning_text(count: int) -> str:
    if count == 1:
        return "a number of the result is NaN or infinite, which JSON cannot represent: it becomes null"
    return f"{count:,} numbers of the result are NaN or infinite, which JSON cannot represent: they become null"
