"""A forecast as a table for a terminal, with what was assumed and what to beware of."""

from __future__ import annotations

from noetl_compiler.diagnostics import columns, printable
from noetl_compiler.forecast import Amount, Forecast, StepForecast

__all__ = ["forecast_table"]

_HEAD = ("step", "items", "calls", "children", "runs", "events", "bytes", "actions", "with retries", "")
_ASSUMED = (
    "assumed: nothing fails (but: with retries), a result has 1 kB (--result-bytes), values over 64 KB are kept in"
    " Postgres, a call takes less than 8 s"
)


def forecast_table(found: Forecast) -> str:
    """Many lines without a line break at the end."""
    shown = [step for step in found.steps if step.most.calls or step.most.children or step.assumed]
    rows = [_HEAD, *map(_row, shown), *_whole(found)]
    widths = [max(columns(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "-" * len(lines[0].rstrip()))
    return "\n".join([*lines, _ASSUMED, *(f"warning: {printable(one)}" for one in found.warnings)])


def _row(step: StepForecast) -> tuple[str, ...]:
    items = f"{step.items:,}" if step.items else ""
    retried = f"{step.actions_with_retries:,}"
    return _cells(printable(step.step), items, step.most, _size(step.bytes), retried, "; ".join(step.assumed))


def _whole(found: Forecast) -> list[tuple[str, ...]]:
    most = _cells("in all", "", found.most, _size(found.bytes), f"{found.actions_with_retries:,}", "")
    if found.least == found.most:
        return [most]
    return [("at most", *most[1:]), _cells("at least", "", found.least, "", "", "")]


def _cells(name: str, items: str, amount: Amount, size: str, retried: str, notes: str) -> tuple[str, ...]:
    children = f"{amount.children:,}" if amount.children else ""
    runs = f"{amount.workflow_runs:,}" if amount.workflow_runs else ""
    return (
        name,
        items,
        f"{amount.calls:,}",
        children,
        runs,
        f"{amount.events:,}",
        size,
        f"{amount.actions:,}",
        retried,
        notes,
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
