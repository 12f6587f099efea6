"""The progress of the steps of a run, from the events of its log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Protocol

__all__ = ["WAIT_BEGINS", "WAIT_ENDS", "Progress", "Row", "StepLine", "warning_text"]

END_STATUSES = {
    "step.done": "completed",
    "step.failed": "failed",
    "step.skipped": "skipped",
    "step.cancelled": "cancelled",
}
"""The status of a step, by the event that ends it."""

WAIT_BEGINS = ("wait.started", "approval.requested")
WAIT_ENDS = ("wait.done", "wait.timed_out", "wait.cancelled", "approval.decided")

LINE_SECONDS = 10.0
"""The interval between progress lines of a loop."""


class Row(Protocol):
    """The columns of a row of noetl.event that are used here. ``duration`` is in seconds."""

    @property
    def event_type(self) -> str: ...
    @property
    def node_name(self) -> str: ...
    @property
    def event_time(self) -> datetime: ...
    @property
    def duration(self) -> float | None: ...
    @property
    def error(self) -> str | None: ...
    @property
    def meta(self) -> Mapping[str, Any]: ...


class StepLine:
    """The progress of one step.

    ``earlier_iterations`` are those of a loop that had ended before it was held and retried; ``iterations`` does not
    count them. ``is_after_failure``: it is the final step, and a failure led there.
    """

    def __init__(self, name: str, *, is_after_failure: bool = False) -> None:
        self.name, self.status, self.started_at = name, "running", time.monotonic()
        self.reported_at = self.started_at
        self.seconds: float | None = None
        self.total: int | None = None
        self.iterations = self.earlier_iterations = self.failed = self.pages = self.retries = self.waits = 0
        self.loop_started_at: datetime | None = None
        self.last_iteration_ended_at: datetime | None = None
        self.note = ""
        self.is_after_failure = is_after_failure

    def final_counts(self) -> str:
        """Return ``counts`` for a step that has ended. Those of a loop omit pages and retries, as the last events of
        these may still follow.
        """
        return self._iteration_counts() if self.total is not None else self.counts()

    def counts(self) -> str:
        """Return ``12/100 iterations, 3 failed, 40 pages, 2 retries``."""
        parts = [self._iteration_counts()]
        parts += [f"{self.pages} pages"] if self.pages > 1 else []
        parts += [f"{self.retries} retr{'y' if self.retries == 1 else 'ies'}"] if self.retries else []
        return ", ".join(filter(None, parts))

    def _iteration_counts(self) -> str:
        parts = [] if self.total is None else [f"{self.iterations}/{self.total} iterations"]
        parts += [f"{self.failed} failed"] if self.failed else []
        return ", ".join(parts)

    def pace(self) -> str:
        """Return ``2.5/s, 36 s left`` for a loop of known length, by the times of its events."""
        if self.total is None or self.loop_started_at is None or self.last_iteration_ended_at is None:
            return ""
        seconds = (self.last_iteration_ended_at - self.loop_started_at).total_seconds()
        if seconds <= 0:
            return ""
        seconds_left = max(0, self.total - self.iterations) * seconds / self.iterations
        return f"{self.iterations / seconds:.1f}/s" + (f", {_duration_text(seconds_left)} left" if seconds_left else "")


class Progress:
    """The progress of all steps, in the order they started."""

    def __init__(self) -> None:
        self.steps: dict[str, StepLine] = {}
        self.warnings: dict[str, None] = {}

    def feed(self, row: Row) -> str | None:
        """Process a row of noetl.event. Return a line to print, or None."""
        if row.event_type == "warning":
            return self._warning_line(warning_text(row))
        if row.meta.get("synthetic"):
            return None
        event, name = row.event_type, _step_of(row)
        if event == "step.started":
            step_line = self.steps[name] = StepLine(name, is_after_failure=bool(row.meta.get("routed_to_end")))
            return f"{name} (after failure) ..." if step_line.is_after_failure else f"{name} ..."
        line = self.steps.get(name)
        if line is None:
            return None
        if event in END_STATUSES:
            return _end_line(line, END_STATUSES[event], row)
        if event == "step.held":
            return _hold_line(line, row)
        if event in WAIT_BEGINS or event in WAIT_ENDS:
            line.waits += 1 if event in WAIT_BEGINS else -1
            if line.status in ("running", "waiting"):  # events of the last iterations may follow the end of the loop
                line.status = "waiting" if line.waits > 0 else "running"
        _count(line, event, row)
        return _retry_line(line, row) if event == "task.attempt.failed" else _loop_progress(line)

    def _warning_line(self, text: str) -> str | None:
        """Return the warning unless it was seen before: a loop that runs again may repeat its warnings."""
        if text in self.warnings:
            return None
        self.warnings[text] = None
        return text


def warning_text(row: Row) -> str:
    """Return ``file:line:col: warning: step: message``."""
    source: dict[str, Any] | None = row.meta.get("source")
    prefix = f"{source['file']}:{source['line']}:{source['col']}: " if source else ""
    return f"{prefix}warning: {row.node_name}: {row.error}"


def _step_of(row: Row) -> str:
    """Return the step of a row. In a row of a task it is part of ``step_run_id``: ``fetch#1``."""
    if row.event_type.startswith(("step.", "loop.")):
        return row.node_name
    return str(row.meta.get("step") or row.meta.get("step_run_id", "").rpartition("#")[0])


def _duration_text(seconds: float) -> str:
    """Return ``36 s``, ``5 min`` or ``2.5 h``."""
    if seconds < 2 * 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 2 * 3600 else f"{seconds / 3600:.1f} h"


def _end_line(line: StepLine, status: str, row: Row) -> str:
    line.status, line.note = status, ""
    line.seconds = row.duration or time.monotonic() - line.started_at
    counts = f" ({final})" if (final := line.final_counts()) else ""
    error = f": {row.error}" if row.error else ""
    after = " (after failure)" if line.is_after_failure else ""
    return f"{line.name}{after} {status} in {line.seconds:.2f} s{counts}{error}"


def _name_of(line: StepLine, row: Row) -> str:
    """Return ``load``, or ``load[3]`` for the loop item with index 3."""
    return f"{line.name}[{row.meta['iteration']}]" if "iteration" in row.meta else line.name


def _hold_line(line: StepLine, row: Row) -> str:
    line.status, line.note = "held", row.error or "failed"
    line.seconds = time.monotonic() - line.started_at
    return f"{_name_of(line, row)} held: {line.note}"


def _count(line: StepLine, event: str, row: Row) -> None:
    meta = row.meta
    iterator: dict[str, Any] = meta.get("iterator") or {}
    if event == "loop.started":
        size = iterator.get("chunks", iterator.get("collection_size", iterator.get("total_count")))
        line.earlier_iterations, line.loop_started_at = meta.get("reused_items", 0), row.event_time
        line.total = size and size - line.earlier_iterations
    elif event in ("loop.iteration.done", "loop.iteration.failed"):
        line.iterations += 1
        line.failed += event == "loop.iteration.failed"
        line.last_iteration_ended_at = max(line.last_iteration_ended_at or row.event_time, row.event_time)
    elif event in ("loop.done", "loop.failed", "loop.cancelled"):
        # The events of the last iterations may follow this one, because they are in other histories.
        line.failed = meta["stats"]["failed"]
        line.iterations = meta["stats"]["success"] + line.failed - line.earlier_iterations
    elif event == "task.done" and meta.get("page"):
        line.pages += 1
    elif event == "task.attempt.done":
        line.note = ""


def _loop_progress(line: StepLine) -> str | None:
    """Return a line about a running loop, at most every LINE_SECONDS."""
    if line.total is None or time.monotonic() - line.reported_at < LINE_SECONDS:
        return None
    line.reported_at = time.monotonic()
    return f"{line.name} running for {line.reported_at - line.started_at:.0f} s ({line.counts()})"


def _retry_line(line: StepLine, row: Row) -> str | None:
    retry: dict[str, Any] = row.meta.get("retry") or {}
    if not retry.get("will_retry"):
        return None
    line.retries += 1
    line.note = f"attempt {retry.get('attempt_number')} failed: {row.error or 'error'}"
    return f"{_name_of(line, row)} retrying: {line.note}"
