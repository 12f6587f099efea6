"""What a tool warns of in its outcome's meta is a warning of the log, once a place (semantics.md 19)."""

from __future__ import annotations

from typing import Any

from noetl_temporal.machine.call import RuleFailure, ToolReport

from .driver import Run, error, ok, run_text
from .playbooks import playbook

WARNING = "a number of the result is NaN or infinite"
STEP = """
  - step: start
    tool: [{name: read, kind: noop}]
"""
LOOP = """
  - step: start
    loop: {in: [1, 2, 3], iterator: item}
    tool: [{name: read, kind: noop}]
"""


def warnings_of(text: str, answer: Any) -> list[str | None]:
    return [event.error for event in run_text(playbook(text), lambda _call: answer).of("warning")]


def test_it_is_reported_at_the_task() -> None:
    run: Run = run_text(playbook(STEP), lambda _call: ok({"n": None}, meta={"warning": WARNING}))
    [warning] = run.of("warning")
    assert (warning.error, warning.node, warning.meta["source"]["line"]) == (f"read: {WARNING}", "start", 7)
    assert run.finish.status == "completed"


def test_a_loop_reports_it_once() -> None:
    assert warnings_of(LOOP, ok({"n": None}, meta={"warning": WARNING})) == [f"read: {WARNING}"]


def test_a_call_that_fails_reports_it_too() -> None:
    assert warnings_of(STEP, error(meta={"warning": WARNING})) == [f"read: {WARNING}"]
    failed = ToolReport(
        {"status": "ok", "result": 1, "meta": {"warning": WARNING}}, rule_failure=RuleFailure("no number")
    )
    assert warnings_of(STEP, failed) == [f"read: {WARNING}"]


def test_other_meta_is_not_a_warning() -> None:
    assert (
        warnings_of(STEP, ok(1))
        == warnings_of(STEP, ok(1, meta={"stdout": "x"}))
        == warnings_of(STEP, ok(1, meta={"warning": 1}))
    )
    assert warnings_of(STEP, ok(1)) == []
