"""The state or outcome of a run, as JSON for programs and as text for people."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeAlias, cast

import msgspec
from rich.text import Text

from noetl_compiler.graph import Json
from noetl_compiler.language.defaults import FINAL_STEP
from noetl_temporal.cli.console import PrintableConsole, styled_text
from noetl_temporal.cli.open_waits import OpenWait
from noetl_temporal.cli.run_problems import RunProblem
from noetl_temporal.cli.step_table import STATUS_COLOURS, step_table, stopped_steps_of
from noetl_temporal.cli.suspensions import Suspension, suspension_lines
from noetl_temporal.cli.text_ids import with_text_ids
from noetl_temporal.machine.failure_log import Failure, FailureCount, FailureLog, format_counts
from noetl_temporal.mirror.read import CalledRun

__all__ = ["Excerpt", "RunSummary"]

Excerpt: TypeAlias = Callable[[Failure], Sequence[str]]
"""Returns the lines of the playbook at a failure."""

MAX_FAILURES = 10
"""The maximum number of failures of one step that are listed."""

MAX_ITEMS, MAX_CHARACTERS, MAX_LINE_CHARACTERS = 20, 500, 100
"""Limits for showing a result: items of a list or an object, characters of a string, characters of a line."""

_FAILURE_FIELDS = ("step", "task", "iteration", "kind", "handled", "file", "line", "col", "message")

STOPPED = ("failed", "cancelled", "timed_out", "terminated")
"""The final statuses of runs that did not complete."""


class RunSummary(msgspec.Struct, frozen=True):
    """The state or the outcome of a run.

    ``status`` is completed, partial, failed, cancelled, terminated, timed_out, running, paused, or unknown; ``reason``
    says why it is unknown, or why a person stopped the run. ``steps`` is name -> {status, reused?, attempts, retries,
    iterations?, duration_seconds}; ``attempts`` includes retries. ``events`` is the number of events in the log,
    without the ``superseded`` ones of resets; ``events_complete``: the mirror has read the event that closed the run.
    ``calls`` is the number of runs that it has called, ``called`` the first of them. A rerun repeats the run
    ``rerun_of`` from the step ``rerun_from`` on.

    A running or paused run has ``waits``, ``suspensions`` (its pause and the oldest of its held steps, whose number is
    ``held``), and ``problems`` that block it or its event log; it is ``cancelling`` after a request to stop.
    """

    execution_id: int
    workflow_id: str
    run_id: str
    path: str
    status: str
    result: Json = None
    steps: dict[str, dict[str, Json]] = {}
    failures: FailureLog = FailureLog()
    events: int = 0
    superseded: int = 0
    events_complete: bool = False
    duration_seconds: float = 0.0
    ui_url: str | None = None
    problems: tuple[RunProblem, ...] = ()
    cancelling: bool = False
    warnings: tuple[str, ...] = ()
    reason: str = ""
    called: tuple[CalledRun, ...] = ()
    calls: int = 0
    waits: tuple[OpenWait, ...] = ()
    suspensions: tuple[Suspension, ...] = ()
    held: int = 0
    rerun_of: str = ""
    rerun_from: str = ""

    def json(self) -> str:
        """Return one JSON object, in which ids are strings.

        ``failures`` is a list of {step, task, iteration, kind, handled, file, line, col, message}; if there are many,
        only the first and the last. ``failure_counts`` counts all failures: {step, kind, count, handled}.
        """
        fields = msgspec.to_builtins(self)
        fields["failures"] = [
            {key: getattr(failure, key) for key in _FAILURE_FIELDS} for failure in self.failures.detailed
        ]
        fields["failure_counts"] = [
            {key: getattr(count, key) for key in ("step", "kind", "count", "handled")} for count in self.failures.counts
        ]
        fields["called"] = [with_text_ids(called) for called in fields["called"]]
        return msgspec.json.encode(with_text_ids(fields)).decode()

    def show(
        self, console: PrintableConsole, excerpt: Excerpt | None = None, *, is_stack_stopping: bool = False
    ) -> None:
        """Print the steps, the result, the failures with their positions, and commands that show more. If the stack
        stops with this run, these commands need ``noetl dev up`` first.
        """
        if self.steps:
            console.print(step_table(self.steps))
        for warning in self.warnings:
            console.print(styled_text((warning, "yellow")), soft_wrap=True)
        for line in _failures(self.failures, excerpt or _no_excerpt):
            console.print(line, soft_wrap=True)
        for line in self._called_lines():
            console.print(line, soft_wrap=True)
        if self.result is not None:
            console.print(styled_text(f"result: {_result_text(self.result)}"), soft_wrap=True)
        colour = STATUS_COLOURS.get(self.status, "cyan")
        time = f"{self.duration_seconds:.1f} s"
        times = {"running": f" for {time}", "paused": f", started {time} ago"}
        stopping = f" ({self._stop_reason()})" if self.cancelling or self.reason else ""
        events = f"{self.events} event{'s' * (self.events != 1)}" + (
            f" ({self.superseded} superseded)" if self.superseded else ""
        )
        totals = f"{times.get(self.status, f' in {time}')}{stopping}, {events}, execution {self.execution_id}"
        console.print(styled_text((self.status.replace("_", " "), colour), totals), soft_wrap=True)
        if self.rerun_of:
            console.print(f"rerun of {self.rerun_of} from {self.rerun_from}", highlight=False, soft_wrap=True)
        for line in (*self._next_steps(is_stack_stopping), *self._blocking_lines()):
            console.print(line, soft_wrap=True)
        if self.ui_url:
            console.print(f"web ui: {self.ui_url}", highlight=False, soft_wrap=True)

    def _called_lines(self) -> Iterator[Text]:
        """Yield the runs of the playbooks that it has called."""
        for called in self.called:
            status = called.status.replace("_", " ")
            colour = STATUS_COLOURS.get(called.status, "default")
            yield styled_text(f"called {called.path}: ", (status, colour), f", execution {called.execution_id}")
        if (more := self.calls - len(self.called)) > 0:
            yield styled_text(f"called {more:,} more playbooks")

    def _blocking_lines(self) -> Iterator[Text]:
        """Yield what the run waits for, and what blocks it."""
        yield from (styled_text((line, "yellow")) for line in suspension_lines(self.suspensions, self.held))
        yield from (styled_text((wait.line(), "cyan")) for wait in self.waits)
        yield from (styled_text((problem.line(), "yellow")) for problem in self.problems)

    def _stop_reason(self) -> str:
        """``now cancelling: wrong table``, or the reason alone when the run has ended."""
        return ": ".join([*(["now cancelling"] if self.cancelling else []), *([self.reason] if self.reason else [])])

    def _next_steps(self, is_stack_stopping: bool) -> Iterator[Text]:
        """Yield where the run stopped, unless it completed, and the commands that help."""
        if self.status not in STOPPED:
            return
        cause = self.failures.cause
        counts = self.failures.counts
        handled_steps = {count.step for count in counts} - {
            count.step for count in counts if count.handled < count.count
        }
        steps = {name: step for name, step in self.steps.items() if name not in handled_steps}
        stopped_steps = stopped_steps_of(steps, self.status, FINAL_STEP)
        if stopped_steps:
            yield styled_text(f"stopped in {', '.join(stopped_steps)}")
        if is_stack_stopping:
            yield styled_text(("to start the stack again, for these commands: noetl dev up", "dim"))
        failed_step = cause.step if cause is not None else ""
        stopped_step = next(iter(stopped_steps), "")
        step = (stopped_step or failed_step) if self.status == "cancelled" else (failed_step or stopped_step)
        is_step = step in self.steps  # a playbook may fail outside its steps
        logs = f"noetl logs {self.execution_id}{f' --step {shlex.quote(step)}' if is_step else ''}"
        yield styled_text((f"what its tasks printed: {logs}; what happened: noetl events {self.execution_id}", "dim"))
        if (called := next((run for run in self.called if run.status in STOPPED), None)) is not None:
            yield styled_text((f"what the tasks of {called.path} printed: noetl logs {called.execution_id}", "dim"))
        if is_step:
            rerun = f"noetl rerun {self.execution_id} --from {shlex.quote(step)}"
            yield styled_text((f"to run it again from there, with the same playbook: {rerun}", "dim"))
        if cause is not None and _is_existing_file(cause.file):
            yield styled_text(
                (f"to run it from its start, with the file as it is now: noetl run {shlex.quote(cause.file)}", "dim")
            )


def _is_existing_file(file: str) -> bool:
    try:
        return Path(file).is_file()
    except OSError:  # a name that no file can have
        return False


def _no_excerpt(_failure: Failure) -> Sequence[str]:
    return ()


def _failures(log: FailureLog, excerpt: Excerpt) -> Iterator[Text]:
    """Yield each failure, with the line of the playbook if it was not handled.

    For a step with more than MAX_FAILURES failures, or with failures that were not kept, yield their counts, the first
    and the last.
    """
    cause = next((failure for failure in log.detailed if not failure.handled and failure.step != FINAL_STEP), None)
    steps = [*(entry.step for entry in log.detailed), *(count.step for count in log.counts)]
    if cause is not None:
        steps.sort(key=lambda step: step == FINAL_STEP)
    for step in dict.fromkeys(steps):
        counts = [count for count in log.counts if count.step == step]
        failures = [failure for failure in log.detailed if failure.step == step]
        total = sum(count.count for count in counts)
        if total <= MAX_FAILURES and len(failures) == total:
            for failure in failures:
                yield _failure_line(failure, is_after=cause is not None and failure.step == FINAL_STEP)
                yield from map(styled_text, () if failure.handled else excerpt(failure))
            continue
        yield styled_text(
            f"{step}: {_failure_counts(counts, failures)}{'; the first and the last:' if failures else ''}"
        )
        yield from (
            styled_text("  ").append_text(_failure_line(failure))
            for failure in dict.fromkeys((*failures[:1], *failures[-1:]))
        )


def _failure_counts(counts: list[FailureCount], failures: list[Failure]) -> str:
    """``1,000 iterations failed: 998 http, 2 timeout (handled)``."""
    total, handled = sum(count.count for count in counts), sum(count.handled for count in counts)
    handled_note = " (handled)" if handled == total else f" ({handled:,} handled)" if handled else ""
    noun = (
        "iterations failed"
        if any(failure.iteration is not None for failure in failures)
        else "failures"
        if total > 1
        else "failure"
    )
    return f"{total:,} {noun}: {format_counts(counts)}{handled_note}"


def _failure_line(failure: Failure, *, is_after: bool = False) -> Text:
    """Return ``file:line:col: step/task: message``. ``is_after``: a failure of the final step after another failure."""
    location = f"{failure.file}:{failure.line}:{failure.col}: " if failure.line else ""
    subject = failure.step + (f"/{failure.task}" if failure.task else "")
    subject += f"[{failure.iteration}]" if failure.iteration is not None else ""
    note = " (handled)" if failure.handled else " (after failure)" if is_after else ""
    return styled_text((location, "red"), f"{subject}: {failure.message}{note}")


def _result_text(result: Json) -> str:
    """Return the result as JSON, on one line if it is short; long parts are truncated."""
    short_result = _truncate(result)
    line = json.dumps(short_result, ensure_ascii=False)
    return line if len(line) <= MAX_LINE_CHARACTERS else json.dumps(short_result, ensure_ascii=False, indent=2)


def _truncate(value: Json) -> Json:
    match value:
        case str() if len(value) > MAX_CHARACTERS:
            return f"{value[:MAX_CHARACTERS]}... ({len(value):,} characters)"
        case list():
            items = cast("list[Json]", value)
            more = [f"... ({len(items):,} items)"] if len(items) > MAX_ITEMS else []
            return [*map(_truncate, items[:MAX_ITEMS]), *more]
        case dict():
            mapping = cast("dict[str, Json]", value)
            short_values = {name: _truncate(value) for name, value in islice(mapping.items(), MAX_ITEMS)}
            return {**short_values, "...": f"{len(mapping):,} names"} if len(mapping) > MAX_ITEMS else short_values
        case _:
            return value
