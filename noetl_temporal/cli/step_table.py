"""The table of the steps of a run, with the numbers of calls, retries and iterations."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rich.table import Table

from noetl_compiler.graph import Json
from noetl_temporal.cli.console import styled_text

__all__ = ["STATUS_COLOURS", "step_table", "stopped_steps_of"]

STATUS_COLOURS: Mapping[str, str] = MappingProxyType(
    {
        "completed": "green",
        "partial": "yellow",
        "failed": "red",
        "timed_out": "red",
        "terminated": "red",
        "cancelled": "yellow",
        "running": "cyan",
        "waiting": "cyan",
        "paused": "yellow",
        "held": "yellow",
        "skipped": "dim",
    }
)

_COLUMNS = ("status", "iterations", "calls", "retries", "seconds")
_FIXED_COLUMNS = frozenset({"status", "calls", "seconds"})
"""The columns that are always shown; others only if a step has a value there."""


def step_table(steps: Mapping[str, Mapping[str, Json]]) -> Table:
    """Return the table of ``steps``, which are those of a RunSummary."""
    rows = {name: _cells(step) for name, step in steps.items()}
    columns = [name for name in _COLUMNS if name in _FIXED_COLUMNS or any(cells[name] for cells in rows.values())]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("step")
    for name in columns:
        table.add_column(name, justify="left" if name == "status" else "right")
    for name, cells in rows.items():
        status = cells["status"]
        colour = STATUS_COLOURS.get(status.partition(" ")[0], "default")
        status_text = styled_text((status, colour))
        table.add_row(name, *(status_text if column == "status" else cells[column] for column in columns))
    return table


def stopped_steps_of(steps: Mapping[str, Mapping[str, Json]], run_status: str, final_step: str) -> list[str]:
    """Return the steps in which a run stopped: those that failed, if the run failed, else those that were cancelled.

    ``final_step`` runs after the others, so it is omitted unless it is the only one.
    """
    for status in ("failed", "cancelled") if run_status == "failed" else ("cancelled", "failed"):
        names = [name for name, step in steps.items() if step.get("status") == status]
        if names:
            return [name for name in names if name != final_step] or names
    return []


def _cells(step: Mapping[str, Json]) -> dict[str, str]:
    """Return the cells of a row. Calls do not include retries."""
    attempts, retries, seconds = step.get("attempts"), step.get("retries", 0), step.get("duration_seconds")
    counts: dict[str, int] = step.get("iterations") or {}
    failed_note = f", {counts['failed']:,} failed" if counts.get("failed") else ""
    ended = counts.get("success", 0) + counts.get("failed", 0)
    return {
        "status": f"{step.get('status', '')}{' (reused)' if step.get('reused') else ''}",
        "iterations": f"{ended:,} of {counts['total']:,}{failed_note}" if counts else "",
        "calls": "" if attempts is None else f"{attempts - retries:,}",
        "retries": f"{retries:,}" if retries else "",
        "seconds": "" if seconds is None else f"{seconds:.2f}",
    }
