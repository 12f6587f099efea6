"""The progress of a run, from the rows of its event log: one line a step."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

__all__ = ["Progress", "Row", "StepLine"]

Row = Mapping[str, Any]
ENDS = {
    "step.done": "done",
    "step.failed": "failed",
    "step.skipped": "skipped",
    "step.cancelled": "cancelled",
}


class StepLine:
    """What is known of one step."""

    def __init__(self, name: str) -> None:
        self.name, self.status, self.began = name, "running", time.monotonic()
        self.seconds: float | None = None
        self.total: int | None = None
        self.iterations = self.pages = self.retries = 0
        self.note = ""

    def told(self) -> str:
        """``12/100 iterations, 40 pages, 2 retries``."""
        parts: list[str] = []
        if self.total is not None:
            parts.append(f"{self.iterations}/{self.total} iterations")
        parts += [f"{self.pages} pages"] if self.pages > 1 else []
        parts += [f"{self.retries} retr{'y' if self.retries == 1 else 'ies'}"] if self.retries else []
        return ", ".join(parts)


class Progress:
    """All steps in the order they began."""

    def __init__(self) -> None:
        self.steps: dict[str, StepLine] = {}

    def feed(self, row: Row) -> str | None:
        """Take in one row of noetl.event; a line worth printing comes back, or None."""
        event, name = str(row["event_type"]), _step_of(row)
        if event == "step.started":
            self.steps[name] = StepLine(name)
            return f"{name} ..."
        line = self.steps.get(name)
        if line is None:
            return None
        if event in ENDS:
            return _end(line, ENDS[event], row)
        _count(line, event, _meta(row))
        return _retried(line, row) if event == "task.attempt.failed" else None


def _meta(row: Row) -> dict[str, Any]:
    meta: dict[str, Any] = row.get("meta") or {}
    return meta


def _step_of(row: Row) -> str:
    return str(_meta(row).get("step") or row.get("node_name") or "")


def _end(line: StepLine, status: str, row: Row) -> str:
    line.status, line.note = status, ""
    line.seconds = row.get("duration") or time.monotonic() - line.began
    told = f" ({line.told()})" if line.told() else ""
    error = f": {row['error']}" if row.get("error") else ""
    return f"{line.name} {status} in {line.seconds:.2f} s{told}{error}"


def _count(line: StepLine, event: str, meta: Mapping[str, Any]) -> None:
    iterator: dict[str, Any] = meta.get("iterator") or {}
    if event == "loop.started":
        line.total = iterator.get("collection_size", iterator.get("total_count"))
    elif event in ("loop.iteration.done", "loop.iteration.failed"):
        line.iterations += 1
    elif event == "task.done" and meta.get("page"):
        line.pages += 1
    elif event == "task.attempt.done":
        line.note = ""


def _retried(line: StepLine, row: Row) -> str | None:
    retry: dict[str, Any] = _meta(row).get("retry") or {}
    if not retry.get("will_retry"):
        return None
    line.retries += 1
    line.note = f"attempt {retry.get('attempt_number')} failed: {row.get('error') or 'error'}"
    return f"{line.name} tries again, {line.note}"
