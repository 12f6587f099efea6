"""The summary of a run in the Temporal UI: the source of its playbook, and a table of its steps."""

from __future__ import annotations

from itertools import islice
from typing import Any

from noetl_compiler.graph import Graph
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import RerunSource
from noetl_temporal.naming import summary

__all__ = ["UiSummary", "playbook_details", "playbook_summary"]

_MAX_ROWS = 30
_STATUSES = {
    "step.started": "running",
    "step.held": "held",
    "step.done": "completed",
    "step.failed": "failed",
    "step.skipped": "skipped",
    "step.cancelled": "cancelled",
}


class UiSummary:
    """The table of steps in Temporal's UI.

    ``rows`` has a row for each step, in the order of their first starts: step -> {status, reused?, seconds?, error?}.
    After a continue-as-new it begins with the rows of the previous run. The table shows only the latest steps, so its
    cost does not depend on the number of steps.
    """

    def __init__(self, rows: dict[str, dict[str, Any]] | None = None) -> None:
        self.rows = rows or {}
        self._lines = {name: _line(name, row) for name, row in self.rows.items()}

    def update(self, event: DomainEvent) -> bool:
        """Update the table with an event. Returns whether it has changed."""
        status = event.status.lower() if event.type == "step.reused" else _STATUSES.get(event.type)
        if status is None or event.meta.get("synthetic"):
            return False
        row: dict[str, Any] = {"status": status}
        if event.type == "step.reused":
            row["reused"] = True
        if event.duration is not None:
            row["seconds"] = event.duration
        if event.error:
            row["error"] = event.error
        self.rows[event.node] = row
        self._lines[event.node] = _line(event.node, row)
        return True

    def markdown(self) -> str:
        """Return the latest steps as a table."""
        latest = [*islice(reversed(self._lines.values()), _MAX_ROWS)][::-1]
        earlier = len(self._lines) - len(latest)
        lines = [f"{earlier} earlier steps", ""] if earlier else []
        return "\n".join([*lines, "| step | status | seconds | |", "|---|---|---|---|", *latest])


def playbook_summary(graph: Graph) -> str:
    """Return the text for a run in the list of workflows, such as ``etl/load@2``."""
    source = graph.source
    return summary(f"{source.path}@{source.version}" if source.version else source.path)


def playbook_details(graph: Graph, rerun: RerunSource | None = None) -> str:
    """Return the source of a playbook, and of a ``rerun`` the earlier run, as Markdown."""
    source = graph.source
    origin = f", rerun of {rerun.execution_id} from `{rerun.step}`" if rerun else ""
    return f"`{source.file}`, dialect {source.dialect}, graph `{graph.digest[:12]}`{origin}"


def _line(name: str, row: dict[str, Any]) -> str:
    status = f"{row['status']} (reused)" if row.get("reused") else row["status"]
    return f"| {_cell(name)} | {status} | {row.get('seconds', '')} | {_cell(row.get('error', ''))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:120]
