"""Validates the attempt records in history before rows are made from them (shape: machine/call.py AttemptRecord).

Reports are written by workers, and parts of them come from tasks and servers. An invalid report must not hide a run
from the log, so a field of another type is dropped or converted to text, and never raises.
"""

from __future__ import annotations

from noetl_temporal.mirror.payloads import Json, as_list, as_map, as_text

__all__ = ["error_of", "record_of", "records_of"]

_STATUSES = frozenset({"ok", "error", "lost", "shutdown", "paused", "reset", "cancelled"})

_MAX_NUMBER = 2**31
_MAX_DELAY = 100 * 365 * 86_400.0
"""Seconds, so that the time of the next attempt is a date."""


def records_of(found: Json) -> list[dict[str, Json]]:
    """Those of a list that are records; none of anything else."""
    return [record for one in as_list(found) or () if (record := record_of(one)) is not None]


def record_of(found: Json) -> dict[str, Json] | None:
    """A record with what is left out of it in history, as it is so for most; None for what has no usable number."""
    told = as_map(found)
    number = _whole((told or {}).get("number", 1))
    if told is None or number is None or not 0 < number < _MAX_NUMBER:
        return None
    status = told.get("status", "ok")
    return {
        "number": number,
        "started": _whole(told.get("started")) or 0,
        "ended": _whole(told.get("ended")),
        "status": status if isinstance(status, str) and status in _STATUSES else "error",
        "error": error_of(told.get("error")),
        "rule": _whole(told.get("rule")),
        "do": as_text(told.get("do")),
        "delay": _delay(told.get("delay")),
        "exhausted": True if told.get("exhausted") is True else None,
        "indeterminate": [as_text(name) for name in as_list(told.get("indeterminate")) or ()] or None,
        "sinks": [_sink(sink) for one in as_list(told.get("sinks")) or () if (sink := as_map(one)) is not None],
        "worker": as_text(told.get("worker")),
    }


def error_of(found: Json) -> dict[str, Json] | None:
    """An error whose message and traceback are texts."""
    told = as_map(found)
    if told is None:
        return None if found is None else {"message": as_text(found)}
    return {**told, **{name: as_text(told[name]) for name in ("message", "traceback") if name in told}}


def _sink(told: dict[str, Json]) -> dict[str, Json]:
    started = _whole(told.get("started")) or 0
    fields: dict[str, Json] = {
        "kind": as_text(told.get("kind")) or "",
        "status": "ok" if told.get("status") == "ok" else "error",
        "started": started,
        "ended": _whole(told.get("ended")) or started,
        "error": as_text(told.get("error")),
    }
    return {**told, **fields}


def _whole(found: Json) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def _delay(found: Json) -> float | None:
    if isinstance(found, bool) or not isinstance(found, int | float):
        return None
    return float(min(max(found, 0), _MAX_DELAY))
