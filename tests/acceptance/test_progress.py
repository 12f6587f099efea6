"""What is shown of a run, from the rows of its event log."""

from __future__ import annotations

import datetime
import io
import re
import time
from typing import Any, NamedTuple

import msgspec
import pytest

from noetl_compiler import compile_or_raise
from noetl_temporal.cli.console import PrintableConsole
from noetl_temporal.cli.event_details import event_details
from noetl_temporal.cli.progress import Progress
from noetl_temporal.cli.run_annotations import RunAnnotations
from noetl_temporal.cli.view import LineView, ScreenView
from noetl_temporal.mirror.read import Event
from noetl_temporal.workflows.ui_summary import playbook_summary
from tests.acceptance.test_run_report import summary_of


class Row(NamedTuple):
    event_type: str
    node_name: str
    meta: dict[str, Any]
    duration: float | None = None
    error: str | None = None
    event_time: datetime.datetime = datetime.datetime(2026, 11, 23, 12)


def row(event: str, duration: float | None = None, error: str | None = None, **meta: Any) -> Row:
    of_task = event.startswith("task.")
    return Row(event, "page" if of_task else "fetch", {"step_run_id": "fetch#1", **meta}, duration, error)


def retry_row(will: bool) -> Row:
    retry = {"attempt_number": 1, "will_retry": will}
    return row("task.attempt.failed", error="HTTP 503", retry=retry)


LOOP = [
    row("loop.started", iterator={"collection_size": 3}),
    row("task.done", page=1),
    row("task.done", page=2),
    row("loop.iteration.done"),
    row("loop.iteration.failed"),
]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([], ""),
        ([row("task.done")], ""),
        (LOOP, "2/3 iterations, 1 failed, 2 pages"),
        (
            [*LOOP, row("loop.done", stats={"total": 3, "success": 2, "failed": 1, "skipped": 0})],
            "3/3 iterations, 1 failed, 2 pages",
        ),
        (
            [*LOOP, row("loop.failed", stats={"total": 3, "success": 0, "failed": 1, "skipped": 2})],
            "1/3 iterations, 1 failed, 2 pages",
        ),
        ([retry_row(True)], "1 retry"),
        ([retry_row(True), retry_row(True)], "2 retries"),
        ([retry_row(False)], ""),
    ],
)
def test_lines_of_the_steps(rows: list[Row], expected: str) -> None:
    progress = Progress()
    for event in [row("step.started"), *rows]:
        progress.feed(event)
    assert progress.steps["fetch"].counts() == expected


def test_the_end_of_a_loop_has_no_counts_of_rows_that_may_come_later() -> None:
    progress = Progress()
    end = row("step.done", duration=1)
    stats = {"total": 3, "success": 2, "failed": 1, "skipped": 0}
    lines = [progress.feed(event) for event in [row("step.started"), *LOOP, row("loop.done", stats=stats), end]]
    assert lines[-1] == "fetch completed in 1.00 s (3/3 iterations, 1 failed)"


@pytest.mark.parametrize(
    ("status", "says"),
    [("running", "running for 2.5 s"), ("paused", "paused, started 2.5 s ago"), ("completed", "completed in 2.5 s")],
)
def test_the_time_of_a_run_is_since_its_start(status: str, says: str) -> None:
    out = io.StringIO()
    msgspec.structs.replace(summary_of(), status=status, duration_seconds=2.5).show(
        PrintableConsole(file=out, width=200)
    )
    assert f"{says}, " in out.getvalue()


def test_a_step_is_waiting_while_one_of_its_items_waits() -> None:
    progress, lines = Progress(), list[str]()
    for event in ("step.started", "wait.started", "approval.requested", "wait.done", "approval.decided", "step.done"):
        progress.feed(row(event, step="fetch"))
        lines.append(progress.steps["fetch"].status)
    assert lines == ["running", "waiting", "waiting", "waiting", "running", "completed"]
    progress.feed(row("wait.cancelled", step="fetch"))
    assert progress.steps["fetch"].status == "completed"


def test_lines_show_starts_retries_and_ends() -> None:
    out = io.StringIO()
    lines = LineView(PrintableConsole(file=out, width=80))
    for event in [row("step.started"), retry_row(True), row("step.failed", duration=1.5, error="HTTP 503 [x]")]:
        lines.feed(event)
    assert out.getvalue().splitlines() == [
        "fetch ...",
        "fetch retrying: attempt 1 failed: HTTP 503",
        "fetch failed in 1.50 s (1 retry): HTTP 503 [x]",
    ]


def test_lines_name_the_item_of_a_loop_that_is_retried_or_held() -> None:
    progress = Progress()
    progress.feed(row("step.started"))
    failed = row("task.attempt.failed", step="fetch", iteration=3, retry={"will_retry": True, "attempt_number": 1})
    assert progress.feed(failed) == "fetch[3] retrying: attempt 1 failed: error"
    assert progress.feed(row("step.held", iteration=4)) == "fetch[4] held: failed"


def test_a_retried_loop_counts_what_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    progress = Progress()
    progress.feed(row("step.started"))
    progress.feed(row("loop.started", iterator={"collection_size": 9}, reused_items=7))
    clock[0] = 12.0
    assert progress.feed(row("loop.iteration.done")) == "fetch running for 12 s (1/2 iterations)"
    clock[0] = 24.0
    end_row = row("loop.done", stats={"success": 9, "failed": 0})
    assert progress.feed(end_row) == "fetch running for 24 s (2/2 iterations)"


def test_the_iterations_of_a_loop_of_chunks_are_its_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    progress = Progress()
    progress.feed(row("step.started"))
    progress.feed(row("loop.started", iterator={"collection_size": 90, "chunks": 3}))
    clock[0] = 12.0
    assert progress.feed(row("loop.iteration.done")) == "fetch running for 12 s (1/3 iterations)"


def test_a_long_loop_shows_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    progress, lines = Progress(), list[str | None]()
    rows = [
        row("step.started"),
        row("loop.started", iterator={"collection_size": 9}),
        *[row("loop.iteration.done")] * 6,
    ]
    for event in rows:
        lines.append(progress.feed(event))
        clock[0] += 4.0
    assert [line for line in lines if line] == [
        "fetch ...",
        "fetch running for 12 s (2/9 iterations)",
        "fetch running for 24 s (5/9 iterations)",
    ]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([], ""),
        ([0], ""),
        ([2], "0.5/s, 4 s left"),
        ([1, 2], "1.0/s, 1 s left"),
        ([2, 1], "1.0/s, 1 s left"),
        ([600], "0.0/s, 20 min left"),
        ([7200], "0.0/s, 4.0 h left"),
        ([1, 2, 3], "1.0/s"),
    ],
)
def test_the_rate_and_remaining_time_of_a_loop_are_shown(ends: list[int], expected: str) -> None:
    progress = Progress()
    start_row = row("loop.started", iterator={"collection_size": 3})
    items = [
        row("loop.iteration.done")._replace(event_time=start_row.event_time + datetime.timedelta(0, s)) for s in ends
    ]
    for event in [row("step.started"), start_row, *items]:
        progress.feed(event)
    assert progress.steps["fetch"].pace() == expected


def test_a_final_step_after_a_failure_is_shown_as_such() -> None:
    progress = Progress()
    start, end = Row("step.started", "end", {"routed_to_end": True}), Row("step.done", "end", {}, 0.5)
    assert [progress.feed(case) for case in (start, end)] == [
        "end (after failure) ...",
        "end (after failure) completed in 0.50 s",
    ]


@pytest.mark.parametrize(
    ("version", "summary"), [("", "shop/orders"), (', version: "2"', "shop/orders@2")], ids=["no version", "version"]
)
def test_a_list_of_workflows_names_path_and_version(version: str, summary: str) -> None:
    head = f"apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {{name: orders, path: shop/orders{version}}}\n"
    graph = compile_or_raise(f"{head}workflow: [{{step: start, tool: {{kind: noop}}}}]\n")
    assert playbook_summary(graph) == summary


def on_screen(rows: list[Row]) -> str:
    out = io.StringIO()
    with ScreenView(PrintableConsole(file=out, width=120, force_terminal=True, color_system=None)) as screen:
        for row in rows:
            screen.feed(row)
    return re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", out.getvalue()).rsplit("\r", 1)[-1]


def test_a_loop_is_a_bar_that_stays() -> None:
    output = on_screen([row("step.started"), *LOOP, retry_row(True), row("step.done", duration=2.0)])
    assert "fetch" in output
    assert "━" in output
    assert "2/3 iterations, 1 failed, 2 pages, 1 retry" in output


def test_rows_of_a_step_that_never_began_are_ignored() -> None:
    progress = Progress()
    assert progress.feed(row("step.done")) is None
    assert progress.feed(Row("playbook.started", "p", {})) is None


WARNING = Row(
    "warning", "start", {"source": {"file": "p.yaml", "line": 8, "col": 9}}, error='"start.cuont" is undefined'
)
TOLD = 'p.yaml:8:9: warning: start: "start.cuont" is undefined'


def test_a_warning_is_shown_once_while_it_runs_and_at_the_end() -> None:
    out = io.StringIO()
    lines = LineView(PrintableConsole(file=out, width=200))
    for warning in [WARNING, WARNING]:
        lines.feed(warning)
    summary_of(warnings=RunAnnotations([WARNING, WARNING]).warnings).show(PrintableConsole(file=out, width=200))
    assert out.getvalue().splitlines()[:2] == [TOLD, TOLD]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (Row("playbook.cancelled", "p", {"reason": "wrong table"}), "wrong table"),
        (Row("playbook.cancelled", "p", {}, error="the workflow was terminated: wrong table"), "wrong table"),
        (Row("playbook.cancelled", "p", {}), ""),
    ],
)
def test_the_reason_of_a_stop_is_shown(row: Row, reason: str) -> None:
    assert RunAnnotations([row]).reason == reason


def test_the_time_of_a_stopping_run_is_shown_beside_that_of_its_stop() -> None:
    out = io.StringIO()
    running = msgspec.structs.replace(
        summary_of(duration_seconds=4.7, cancelling=True, reason="wrong table"), status="running"
    )
    running.show(PrintableConsole(file=out, width=200))
    assert "running for 4.7 s (now cancelling: wrong table), 0 events" in out.getvalue()


@pytest.mark.parametrize(
    ("type_", "meta", "expected"),
    [
        (
            "next.evaluated",
            {
                "arcs": [
                    {"to": "a", "matched": False, "when": "{{ x }}"},
                    {"to": "b", "matched": True, "when": "{{ y }}"},
                ]
            },
            "to b when {{ y }}",
        ),
        ("next.evaluated", {"arcs": [{"to": "a", "matched": False, "when": "{{ x }}"}]}, "no match: a when {{ x }}"),
        ("next.evaluated", {"arcs": [{"to": "end", "matched": True}]}, "to end"),
        (
            "playbook.cancelled",
            {"stopped_by": "cancel", "reason": "wrong table"},
            "stopped by cancel, reason wrong table",
        ),
    ],
)
def test_the_table_of_events_shows_the_reason(type_: str, meta: dict[str, Any], expected: str) -> None:
    moment = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    event = Event(1, 2, None, None, moment, type_, "start", "step", "COMPLETED", None, None, None, meta, None, None)
    assert event_details(event) == expected


def test_a_step_that_the_playbook_does_not_have_is_not_shown() -> None:
    progress = Progress()
    assert progress.feed(row("step.started", synthetic=True)) is None
    assert progress.steps == {}
