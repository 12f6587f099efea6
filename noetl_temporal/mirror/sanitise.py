"""Removes from a value what an event must not contain: secrets, internal fields, large values (loop-and-retry seed,
Context).
"""

from __future__ import annotations

import re

from noetl_temporal.mirror.payloads import Json, as_list, as_map
from noetl_temporal.shortening import abridged

__all__ = ["LARGE", "sanitised"]

LARGE = 10_240
"""Bytes of JSON above which a value is replaced by its size."""

LEVELS = 100
"""Levels of nested maps and lists; deeper values are left out."""

_KEPT = "_step_results"
_SECRET = re.compile(
    r"(^|[_-])(passw(or)?d|passphrase|secrets?|api[_-]?key|access[_-]?key|private[_-]?key|authorization|auth|credentials?|cookie)($|[_-])"
    r"|(^|[_-])(?<!page[_-])(?<!next[_-])(?<!continuation[_-])tokens?$",
    re.IGNORECASE,
)

_PARAMETER = re.compile(r"([?&])([\w.~%-]{1,100})=[^&#\s]+")


def sanitised(context: dict[str, Json]) -> dict[str, Json]:
    """The context without credentials and internal keys, each of its values at most LARGE and LEVELS deep."""
    return {name: abridged(value, LARGE) for name, value in _allowed(context).items()}


def _allowed(value: Json, levels: int = LEVELS) -> Json:
    if not levels and isinstance(value, dict | list):
        return {"_truncated": True}
    if (fields := as_map(value)) is not None:
        if _is_cut(fields):
            return fields
        return {name: _allowed(inner, levels - 1) for name, inner in fields.items() if _is_safe_name(name)}
    if (items := as_list(value)) is not None:
        return [_allowed(inner, levels - 1) for inner in items]
    return _PARAMETER.sub(_masked, value) if isinstance(value, str) and "=" in value else value


def _masked(parameter: re.Match[str]) -> str:
    """A parameter in the query of a URL, without its value if that is a secret."""
    lead, name = parameter[1], parameter[2]
    return f"{lead}{name}=***" if _SECRET.search(name) else parameter[0]


def _is_cut(fields: dict[str, Json]) -> bool:
    """Whether the value is a placeholder for one that was left out before."""
    return fields == {"_truncated": True, **({"_size": fields["_size"]} if type(fields.get("_size")) is int else {})}


def _is_safe_name(name: str) -> bool:
    return name == _KEPT or not (name.startswith("_") or _SECRET.search(name))
