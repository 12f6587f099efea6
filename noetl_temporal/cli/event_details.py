"""The details of an event that have no column in the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from noetl_temporal.cli.progress import warning_text

if TYPE_CHECKING:  # importing the database driver is slow
    from noetl_temporal.mirror.read import Event

__all__ = ["event_details"]

_UNCHANGED_FIELDS = (
    *("page", "iteration", "attempt_number", "do", "to", "rows", "kind", "allowed", "stopped_by", "reason"),
    *("rerun_of", "rerun_from"),
)
"""The fields of an event's meta that are shown unchanged."""

_MAX_CHARACTERS = 80
"""Characters of a condition that are shown."""


def event_details(row: Event) -> str:
    """Return the details of an event: ``page 2, attempt 1``, its error, the targets of a route and their conditions."""
    if row.event_type == "warning":
        return warning_text(row)
    meta = {**row.meta, **row.meta.get("retry", {}), **row.meta.get("sink", {})}
    details = [
        f"{name.removesuffix('_number').replace('_', ' ')} {meta[name]}"
        for name in _UNCHANGED_FIELDS
        if meta.get(name) is not None
    ]
    details += [_routes_text(row.meta)] if row.event_type == "next.evaluated" else []
    details += _decision_text(meta)
    return ", ".join([*details, *([row.error] if row.error else [])])


def _decision_text(meta: dict[str, Any]) -> list[str]:
    """Return what a person decided: ``approved by ann``, ``retry by bob``."""
    approved = meta.get("approved")
    decision = meta.get("action") or ("" if approved is None else "approved" if approved else "rejected")
    person = f"by {meta['by']}" if meta.get("by") else ""
    return [text] if (text := f"{decision} {person}".strip()) else []


def _routes_text(meta: dict[str, Any]) -> str:
    """Return ``to report when {{ count > 5 }}``; if no arc matched, the conditions that did not match."""
    arcs: list[dict[str, Any]] = meta.get("arcs") or []
    matching_arcs = [_arc_text(arc) for arc in arcs if arc.get("matched")]
    if matching_arcs:
        return f"to {', '.join(matching_arcs)}"
    other_arcs = [_arc_text(arc) for arc in arcs]
    return f"no match: {', '.join(other_arcs)}" if other_arcs else "no routes"


def _arc_text(arc: dict[str, Any]) -> str:
    when = " ".join(str(arc.get("when") or "").split())
    condition = f"{when[:_MAX_CHARACTERS]}..." if len(when) > _MAX_CHARACTERS else when
    return f"{arc['to']} when {condition}" if condition else str(arc["to"])
