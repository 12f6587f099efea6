"""NaN and infinity, which JSON cannot represent, from databases, response bodies or Python code.

They become null, with a warning in the log of the run: ``meta.warning`` of the outcome (semantics.md 19).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, cast

from noetl_activities.outcome import Json

__all__ = ["replace_non_finite"]


def replace_non_finite(value: Json) -> dict[str, Json]:
    """Replace them with null in lists and maps, in place. Returns ``meta`` for the outcome, empty if there are none."""
    count = 0
    level: list[Any] = [value]
    while level:
        inner: list[Any] = []
        for outer in level:
            non_finite = [
                key for key, value in _entries(outer) if value.__class__ is float and not math.isfinite(value)
            ]
            for key in non_finite:
                outer[key] = None
            count += len(non_finite)
            inner += [value for _, value in _entries(outer) if value.__class__ is dict or value.__class__ is list]
        level = inner
    return {"warning": _words(count)} if count else {}


def _entries(outer: Any) -> Iterable[tuple[Any, Any]]:
    if outer.__class__ is dict:
        return cast("dict[str, Any]", outer).items()
    return enumerate(cast("list[Any]", outer))


def _words(count: int) -> str:
    if count == 1:
        return "a number of the result is NaN or infinite, which JSON cannot represent: it becomes null"
    return f"{count:,} numbers of the result are NaN or infinite, which JSON cannot represent: they become null"
