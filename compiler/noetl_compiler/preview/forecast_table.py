"""A forecast as a table for a terminal, with what was assumed and what to beware of."""

from __future__ import annotations

from noetl_compiler.diagnostics import columns, printable
from noetl_compiler.forecast import Forecast, StepForecast

__all__ = ["forecast_table"]

_HEAD = ("step", "items", "calls", "runs", "events", "bytes", "actions", "with retries", "")


def forecast_table(found: Forecast) -> str:
    """Many lines without a line break at the end."""
    shown = [step for step in found.steps if step.calls or step.items]
    rows = [_HEAD, *map(_row, shown), _total(found)]
    widths = [max(columns(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "-" * len(lines[0].rstrip()))
    return "\n".join([*lines, *(f"warning: {printable(one)}" for one in found.warnings)])


def _row(step: StepForecast) -> tuple[str, ...]:
    return (
        printable(step.step),
        f"{step.items:,}" if step.items else "",
        f"{step.calls:,}",
        f"{step.workflow_runs:,}" if step.workflow_runs else "",
        f"{step.events:,}",
        _size(step.bytes),
        f"{step.actions:,}",
        f"{step.actions_with_retries:,}",
        "; ".join(step.assumed),
    )


def _total(found: Forecast) -> tuple[str, ...]:
    return (
        "in all",
        "",
        f"{found.calls:,}",
        f"{found.workflow_runs:,}",
        f"{found.events:,}",
        _size(found.bytes),
        f"{found.actions:,}",
        f"{found.actions_with_retries:,}",
        "",
    )


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [row[0] + " " * (widths[0] - columns(row[0]))]
    cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
    return "  ".join([*cells, row[-1]]).rstrip()


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
