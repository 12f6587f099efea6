"""A forecast as a table for a terminal, with its assumptions and warnings."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from noetl_compiler.diagnostics import columns
from noetl_compiler.forecast import Amount, Forecast, StepForecast
from noetl_compiler.printable import printable_line

__all__ = ["Table", "forecast_cells", "forecast_table"]

Cells: TypeAlias = tuple[str, ...]

_TITLES = ("step", "items", "calls", "children", "runs", "events", "bytes", "actions", "with retries", "")
_ASSUMPTIONS = (
    "assumed: nothing fails (but: with retries), a result has 1 kB (--result-bytes), values over 64 KB are stored in"
    " Postgres, a call takes less than 8 s"
)


class Table(NamedTuple):
    """Rows of cells: one for each step with a cost, then the totals of the run."""

    head: Cells
    steps: list[Cells]
    totals: list[Cells]
    assumptions: str
    warnings: tuple[str, ...]


def forecast_cells(forecast: Forecast) -> Table:
    """Return the cells of the table, for a terminal or an HTML page."""
    steps = [_row(step) for step in forecast.steps if step.upper.calls or step.upper.children or step.assumptions]
    return Table(_TITLES, steps, _totals(forecast), _ASSUMPTIONS, tuple(map(printable_line, forecast.warnings)))


def forecast_table(forecast: Forecast) -> str:
    """Return the table as text, without a trailing newline."""
    table = forecast_cells(forecast)
    rows = [table.head, *table.steps, *table.totals]
    widths = [max(columns(row[column]) for row in rows) for column in range(len(_TITLES))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "-" * len(lines[0].rstrip()))
    return "\n".join([*lines, table.assumptions, *(f"warning: {warning}" for warning in table.warnings)])


def _row(step: StepForecast) -> Cells:
    items = f"{step.items:,}" if step.items else ""
    actions = f"{step.actions_with_retries:,}"
    return _cells(printable_line(step.step), items, step.upper, _size(step.bytes), actions, "; ".join(step.assumptions))


def _totals(forecast: Forecast) -> list[Cells]:
    upper_row = _cells("in all", "", forecast.upper, _size(forecast.bytes), f"{forecast.actions_with_retries:,}", "")
    if forecast.lower == forecast.upper:
        return [upper_row]
    return [("in all, at most", *upper_row[1:]), _cells("in all, at least", "", forecast.lower, "", "", "")]


def _cells(name: str, items: str, amount: Amount, size: str, actions: str, notes: str) -> Cells:
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
        actions,
        notes,
    )


def _line(row: Cells, widths: list[int]) -> str:
    cells = [row[0] + " " * (widths[0] - columns(row[0]))]
    cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
    return "  ".join([*cells, row[-1]]).rstrip()


def _size(count: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
