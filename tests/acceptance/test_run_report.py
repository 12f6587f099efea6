"""What is shown of a run that is over, as text and as JSON: failures, steps, and how to continue."""

from __future__ import annotations

import functools
import io
import json
from typing import Any

import msgspec
import pytest

from noetl_temporal.cli.console import PrintableConsole
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.cli.text_ids import with_text_ids
from noetl_temporal.machine.failure_log import Failure, FailureLog
from noetl_temporal.mirror.read import CalledRun

AFTER = ("how it ended", "where to look further")
"""The last lines about a run that failed."""

FAILURE = Failure("fetch", "HTTP 503 [x]", task="page", file="p.yaml", line=12, col=9)


def summary_of(**fields: Any) -> RunSummary:
    return RunSummary(execution_id=7, workflow_id="p/7", run_id="r", path="p", status="failed", **fields)


def test_json_has_every_field_and_plain_failures() -> None:
    document = json.loads(summary_of(failures=FailureLog().with_failure(FAILURE)).json())
    assert set(document) == {
        "superseded",
        "execution_id",
        "workflow_id",
        "run_id",
        "path",
        "status",
        "result",
        "steps",
        "failures",
        "failure_counts",
        "events",
        "events_complete",
        "duration_seconds",
        "ui_url",
        "problems",
        "cancelling",
        "waits",
        "held",
        "suspensions",
        "warnings",
        "called",
        "calls",
        "reason",
        "rerun_of",
        "rerun_from",
    }
    assert document["execution_id"] == "7", "a number would be rounded by who reads it as a float"
    assert document["failures"] == [
        {
            "step": "fetch",
            "task": "page",
            "iteration": None,
            "kind": "",
            "handled": False,
            "file": "p.yaml",
            "line": 12,
            "col": 9,
            "message": "HTTP 503 [x]",
        }
    ]
    assert document["failure_counts"] == [{"step": "fetch", "kind": "", "count": 1, "handled": 0}]


def test_ids_are_texts_and_values_of_the_playbook_stay() -> None:
    id_ = 2**62 + 1
    context = {"execution_id": id_, "patient_id": 5, "n": id_}
    row = {"event_id": id_, "parent_event_id": None, "node_name": "a", "meta": {"origin_event_id": id_, "page": 2}}
    assert with_text_ids({**row, "context": context, "result": {"order_id": id_}}) == {
        **row,
        "event_id": str(id_),
        "meta": {"origin_event_id": str(id_), "page": 2},
        "context": {**context, "execution_id": str(id_)},
        "result": {"order_id": id_},
    }


def test_text_names_the_place_and_escapes_markup() -> None:
    out = io.StringIO()
    steps = {"fetch": {"status": "failed", "attempts": 2, "duration_seconds": 1.0}}
    summary_of(failures=FailureLog().with_failure(FAILURE), steps=steps).show(PrintableConsole(file=out, width=80))
    assert "p.yaml:12:9: fetch/page: HTTP 503 [x]" in out.getvalue()
    assert "fetch  failed" in out.getvalue()


STEPS: dict[str, dict[str, Any]] = {
    "load": {"status": "completed", "attempts": 9, "retries": 2, "duration_seconds": 1.0},
    "each": {
        "status": "failed",
        "attempts": 4,
        "retries": 0,
        "iterations": {"total": 1200, "success": 3, "failed": 1, "skipped": 1196},
        "duration_seconds": 2.0,
    },
    "end": {"status": "completed", "attempts": 0, "retries": 0, "duration_seconds": 0.0},
}


def test_calls_retries_and_iterations_have_different_lines() -> None:
    out = io.StringIO()
    summary_of(steps=STEPS).show(PrintableConsole(file=out, width=100))
    assert [line.split() for line in out.getvalue().splitlines()[:4]] == [
        ["step", "status", "iterations", "calls", "retries", "seconds"],
        ["load", "completed", "7", "2", "1.00"],
        ["each", "failed", "4", "of", "1,200,", "1", "failed", "4", "2.00"],
        ["end", "completed", "0", "0.00"],
    ]


@pytest.mark.parametrize(
    ("status", "steps", "location"),
    [
        ("failed", STEPS, "stopped in each"),
        ("failed", {"beside": {"status": "cancelled"}, **STEPS}, "stopped in each"),
        ("cancelled", {**STEPS, "wait": {"status": "cancelled"}}, "stopped in wait"),
        ("timed_out", {"end": {"status": "cancelled"}}, "stopped in end"),
        ("terminated", {}, None),
    ],
)
def test_a_stopped_run_shows_where_it_is_and_how_to_continue(
    status: str, steps: dict[str, dict[str, Any]], location: str | None
) -> None:
    out = io.StringIO()
    msgspec.structs.replace(summary_of(steps=steps), status=status).show(PrintableConsole(file=out, width=200))
    lines = out.getvalue().splitlines()
    assert [line for line in lines if line.startswith("stopped")] == ([location] if location else [])
    step = location.split()[-1] if location else ""
    logs = f"noetl logs 7 --step {step}" if step else "noetl logs 7"
    message = [f"what its tasks printed: {logs}; what happened: noetl events 7"]
    if step in steps:
        message.append(f"to run it again from there, with the same playbook: noetl rerun 7 --from {step}")
    assert lines[-len(message) :] == message


def advice(summary: RunSummary, *, is_stack_stopping: bool = False) -> list[str]:
    """The lines of a stopped run from the place where it stopped on."""
    out = io.StringIO()
    summary.show(PrintableConsole(file=out, width=200), is_stack_stopping=is_stack_stopping)
    lines = out.getvalue().splitlines()
    return lines[next(index for index, line in enumerate(lines) if line.startswith("failed in")) + 1 :]


def test_the_logs_of_a_run_that_failed_outside_its_steps_are_those_of_all_steps() -> None:
    failures = FailureLog().with_failure(Failure("playbook", "unsigned"))
    lines = advice(summary_of(failures=failures))
    assert lines == ["what its tasks printed: noetl logs 7; what happened: noetl events 7"]


def test_a_run_did_not_stop_in_a_step_whose_failure_was_handled() -> None:
    failures = FailureLog().with_failure(Failure("start", "no rows", handled=True))
    failures = failures.with_failure(Failure("odd", "no route"))
    steps = {name: {"status": "failed"} for name in ("start", "odd")}
    first, logs, *_ = advice(summary_of(failures=failures, steps=steps))
    assert (first, logs.partition(";")[0]) == ("stopped in odd", "what its tasks printed: noetl logs 7 --step odd")


def test_the_logs_of_a_called_playbook_that_failed_are_named() -> None:
    called = (CalledRun(8, "etl/fine", "completed"), CalledRun(9, "etl/load", "failed"))
    assert "what the tasks of etl/load printed: noetl logs 9" in advice(summary_of(called=called, calls=2))


def test_the_advice_says_how_to_start_a_stack_that_stops_with_the_run() -> None:
    lines = advice(summary_of(), is_stack_stopping=True)
    assert lines[0] == "to start the stack again, for these commands: noetl dev up"


def test_a_run_that_completed_needs_no_advice() -> None:
    out = io.StringIO()
    msgspec.structs.replace(summary_of(steps=STEPS), status="completed").show(PrintableConsole(file=out, width=200))
    assert "noetl" not in out.getvalue()


def item(index: int, kind: str = "http", *, handled: bool = False) -> Failure:
    return Failure("load", f"no {index}", file="p.yaml", line=3, col=5, kind=kind, iteration=index, handled=handled)


FEW = [item(0), FAILURE, item(2)]
MANY_FAILURES = [FAILURE, *(item(index, "timeout" if index < 2 else "http") for index in range(1500))]


@pytest.mark.parametrize(
    ("failures", "lines"),
    [
        ([], []),
        (
            FEW,
            [
                "p.yaml:3:5: load[0]: no 0",
                "p.yaml:3:5: load[2]: no 2",
                "p.yaml:12:9: fetch/page: HTTP 503 [x]",
            ],
        ),
        (
            MANY_FAILURES,
            [
                "p.yaml:12:9: fetch/page: HTTP 503 [x]",
                "load: 1,500 iterations failed: 1,498 http, 2 timeout; the first and the last:",
                "  p.yaml:3:5: load[0]: no 0",
                "  p.yaml:3:5: load[1499]: no 1499",
            ],
        ),
        (
            [*(item(index) for index in range(100)), FAILURE, *(item(index, handled=True) for index in range(100))],
            [
                "load: 200 iterations failed: 200 http (100 handled); the first and the last:",
                "  p.yaml:3:5: load[0]: no 0",
                "  p.yaml:3:5: load[99]: no 99 (handled)",
                "fetch: 1 failure: 1 of no kind",
            ],
        ),
    ],
)
def test_many_failures_of_a_step_are_shown_as_counts(failures: list[Failure], lines: list[str]) -> None:
    out = io.StringIO()
    log = functools.reduce(FailureLog.with_failure, failures, FailureLog())
    summary_of(failures=log).show(PrintableConsole(file=out, width=80))
    assert out.getvalue().splitlines()[: -len(AFTER)] == lines


def test_later_failures_are_listed_below_the_cause() -> None:
    out = io.StringIO()
    log = FailureLog().with_failure(Failure("end", '"start.body" is undefined')).with_failure(FAILURE)
    summary_of(failures=log, events=1).show(PrintableConsole(file=out, width=200))
    first, second, last, *_ = out.getvalue().splitlines()
    assert first == "p.yaml:12:9: fetch/page: HTTP 503 [x]"
    assert second == 'end: "start.body" is undefined (after failure)'
    assert "1 event, execution" in last


def test_a_result_is_labelled_and_json() -> None:
    out = io.StringIO()
    summary_of(result={"ok": True, "none": None, "long": list(range(30))}).show(PrintableConsole(file=out, width=200))
    output = out.getvalue()
    assert output.startswith("result: {")
    assert '"ok": true' in output
    assert "... (30 items)" in output
    assert "result" not in _shown_without_result()


def _shown_without_result() -> str:
    out = io.StringIO()
    summary_of().show(PrintableConsole(file=out, width=200))
    return out.getvalue()


def test_a_cancelled_run_is_rerun_from_where_it_was_cancelled() -> None:
    out = io.StringIO()
    steps: dict[str, Any] = {"paid": {"status": "cancelled"}, "end": {"status": "failed"}}
    log = FailureLog().with_failure(Failure("end", '"paid.amount" is undefined'))
    cancelled = msgspec.structs.replace(summary_of(failures=log), status="cancelled", steps=steps)
    cancelled.show(PrintableConsole(file=out, width=200))
    assert "--from paid" in out.getvalue()
