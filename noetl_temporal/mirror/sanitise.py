"""Removes secrets, internal fields and large values from the context of a row (loop-and-retry design, Context)."""

from __future__ import annotations

import re

from noetl_temporal.mirror.payloads import Json, as_list, as_mapping
from noetl_temporal.shortening import abridge

__all__ = ["LARGE", "sanitise"]

LARGE = 10_240
"""Bytes of JSON above which a value is replaced by its size."""

LEVELS = 100
"""Levels of nested mappings and lists; deeper values are removed."""

_STEP_RESULTS = "_step_results"
"""The only internal key that is not removed."""

_SECRET = re.compile(
    r"(^|[_-])(passw(or)?d|passphrase|secrets?|api[_-]?key|access[_-]?key|private[_-]?key|authorization|auth|credentials?|cookie)($|[_-])"
    r"|(^|[_-])(?<!page[_-])(?<!next[_-])(?<!continuation[_-])tokens?$",
    re.IGNORECASE,
)

_PARAMETER = re.compile(r"([?&])([\w.~%-]{1,100})=[^&#\s]+")


def sanitise(context: dict[str, Json]) -> dict[str, Json]:
    """Return the context without credentials and internal keys, each value at most LARGE bytes and LEVELS deep."""
    return {name: abridge(value, LARGE) for name, value in _remove_forbidden(context).items()}


def _remove_forbidden(value: Json, levels: int = LEVELS) -> Json:
    if not levels and isinstance(value, dict | list):
        return {"_truncated": True}
    if (fields := as_mapping(value)) is not None:
        if _is_truncated(fields):
            return fields
        return {name: _remove_forbidden(inner, levels - 1) for name, inner in fields.items() if _is_safe_name(name)}
    if (items := as_list(value)) is not None:
        return [_remove_forbidden(inner, levels - 1) for inner in items]
    return _PARAMETER.sub(_mask_secret, value) if isinstance(value, str) and "=" in value else value


def _mask_secret(parameter: re.Match[str]) -> str:
    """Return the parameter of a URL's query, without its value if that is a secret."""
    separator, name = parameter[1], parameter[2]
    return f"{separator}{name}=***" if _SECRET.search(name) else parameter[0]


def _is_truncated(fields: dict[str, Json]) -> bool:
    """Whether the value is a placeholder for one that was truncated before."""
    return fields == {"_truncated": True, **({"_size": fields["_size"]} if type(fields.get("_size")) is int else {})}


def _is_safe_name(name: str) -> bool:
    return name == _STEP_RESULTS or not (name.startswith("_") or _SECRET.search(name))
