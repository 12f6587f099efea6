"""Validates the attempt records in history before rows are derived from them (shape: machine/call.py AttemptRecord).

Reports are written by workers, and parts of them come from tasks and servers. An invalid report must not prevent the
log of a run, so a field of the wrong type is dropped or converted to a string, without an error.
"""

from __future__ import annotations

from noetl_temporal.mirror.payloads import Json, as_list, as_mapping, as_text

__all__ = ["valid_error", "valid_record", "valid_records"]

_STATUSES = frozenset({"ok", "error", "lost", "shutdown", "paused", "reset", "cancelled"})

_MAX_NUMBER = 2**31
_MAX_DELAY = 100 * 365 * 86_400.0
"""Seconds, so that the time of the next attempt is a date."""


def valid_records(value: Json) -> list[dict[str, Json]]:
    """Return the valid records in a list; empty for any other value."""
    return [record for entry in as_list(value) or () if (record := valid_record(entry)) is not None]


def valid_record(value: Json) -> dict[str, Json] | None:
    """Return a record, with the default values that history omits; None if it has no valid attempt number."""
    fields = as_mapping(value)
    number = _integer((fields or {}).get("number", 1))
    if fields is None or number is None or not 0 < number < _MAX_NUMBER:
        return None
    status = fields.get("status", "ok")
    return {
        "number": number,
        "started": _integer(fields.get("started")) or 0,
        "ended": _integer(fields.get("ended")),
        "status": status if isinstance(status, str) and status in _STATUSES else "error",
        "error": valid_error(fields.get("error")),
        "rule": _integer(fields.get("rule")),
        "do": as_text(fields.get("do")),
        "delay": _delay(fields.get("delay")),
        "exhausted": True if fields.get("exhausted") is True else None,
        "indeterminate": [as_text(name) for name in as_list(fields.get("indeterminate")) or ()] or None,
        "sinks": [_sink(sink) for item in as_list(fields.get("sinks")) or () if (sink := as_mapping(item)) is not None],
        "worker": as_text(fields.get("worker")),
    }


def valid_error(value: Json) -> dict[str, Json] | None:
    """Return an error with its message and traceback as strings."""
    fields = as_mapping(value)
    if fields is None:
        return None if value is None else {"message": as_text(value)}
    return {**fields, **{name: as_text(fields[name]) for name in ("message", "traceback") if name in fields}}


def _sink(record: dict[str, Json]) -> dict[str, Json]:
    start = _integer(record.get("started")) or 0
    fields: dict[str, Json] = {
        "kind": as_text(record.get("kind")) or "",
        "status": "ok" if record.get("status") == "ok" else "error",
        "started": start,
        "ended": _integer(record.get("ended")) or start,
        "error": as_text(record.get("error")),
    }
    return {**record, **fields}


def _integer(value: Json) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _delay(value: Json) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(min(max(value, 0), _MAX_DELAY))
