"""The audit finds what is wrong: a story that holds, and each way to break it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.audit import audit
from tests.mirror.built import begin, payloads, playbook
from tests.mirror.story import Story

Rows = list[dict[str, Any]]


def _rows(status: str = "completed") -> Rows:
    """A playbook of one step and one call of two attempts."""
    history, story = playbook(1), Story(1_795_000_000_000)
    task = begin(history, story)
    failed = {"number": 1, "started": story.now, "ended": story.now + 5, "status": "error", "do": "retry"}
    done = {"number": 2, "started": story.now + 8, "ended": story.now + 9, "status": "ok"}
    history.now = story.now = story.now + 20
    history.answers(len(history.events), {"outcome": {"status": "ok"}, "attempts": [failed, done]})
    story.leave_room(task, 6)
    task_event = {"id": task, "at": story.now, "type": "task.started", "node": "page", "kind": "http"}
    step = {"id": task - 1, "at": story.now, "type": "step.started", "node": "fetch", "kind": "step"}
    ends = [story.ends(task_event), story.ends(step | {"meta": {"step_run_id": "fetch#1"}}), *story.closing(status)]
    history.task()
    history.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads({"status": "completed", "trail": ends}))
    return [msgspec.structs.asdict(row) for row in history.rows()]


def _of(rows: Rows, type_: str) -> dict[str, Any]:
    return next(row for row in rows if row["event_type"] == type_)


def test_a_consistent_log_has_no_problems() -> None:
    assert audit(_rows(), status="COMPLETED", stopped=False) == []


def _drop(type_: str) -> Callable[[Rows], None]:
    return lambda rows: rows.remove(_of(rows, type_))


def _set(type_: str, **columns: Any) -> Callable[[Rows], None]:
    return lambda rows: _of(rows, type_).update(columns)


def _repeat(type_: str) -> Callable[[Rows], None]:
    return lambda rows: rows.append({**_of(rows, type_), "event_id": rows[-1]["event_id"] - 1})


def _after_the_end(type_: str) -> Callable[[Rows], None]:
    return lambda rows: _of(rows, type_).update(event_id=rows[-1]["event_id"] + 1)


def _number(rows: Rows) -> None:
    _of(rows, "task.attempt.started")["meta"]["retry"]["attempt_number"] = 2


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_drop("step.done"), "step.started of 'fetch' never ends"),
        (_drop("step.started"), "has a parent that does not exist"),
        (_drop("task.started"), "ends what never began"),
        (_drop("playbook.completed"), "no row says so"),
        (_repeat("step.done"), "ends 2 times"),
        (_set("task.started", parent_event_id=1 << 62), "has a parent that does not exist"),
        (_set("task.done", event_id=1), "is older than its parent"),
        (_set("task.done", duration=-0.1), "took -0.1 s"),
        (_after_the_end("task.attempt.failed"), "comes after the end"),
        (_after_the_end("task.attempt.failed"), "stands after"),
        (_set("playbook.completed", status="FAILED"), "says FAILED where the execution is COMPLETED"),
        (_set("step.done", event_type="step.failed"), "failed unhandled"),
        (_number, "is the first of the attempts [2, 2]"),
    ],
)
def test_every_broken_invariant_is_found(spoil: Callable[[Rows], None], problem: str) -> None:
    rows = _rows()
    spoil(rows)
    broken_invariants = audit(rows, status="COMPLETED", stopped=False)
    assert any(problem in invariant for invariant in broken_invariants), broken_invariants


def test_a_run_that_failed_without_anything_that_failed_is_found() -> None:
    rows = _rows("failed")
    _of(rows, "playbook.failed")["meta"]["failed_steps_count"] = 0
    for row in [row for row in rows if row["event_type"] == "task.attempt.failed"]:
        row["status"] = "COMPLETED"
    broken_invariants = audit(rows, status="FAILED", stopped=False)
    assert any("has nothing below it that failed" in invariant for invariant in broken_invariants), broken_invariants
    for message in ({"stopped_by": "timeout"}, {"result_refused": True}):
        last = {**_of(rows, "playbook.failed")}
        last["meta"] = last["meta"] | message
        assert audit([*rows[:-1], last], status="FAILED", stopped=False) == []


@pytest.mark.parametrize("lost_type", ["done", "failed"])
def test_a_loop_that_counts_iterations_without_a_row_is_found(lost_type: str) -> None:
    story = Story(1_795_000_000_000)
    opening = story.opening()
    step = story.begins("step.started", "fetch", "step", story.workflow)
    loop = story.begins("loop.started", "fetch", "loop", step["id"])
    items = [story.begins("loop.iteration.started", "fetch", "iteration", loop["id"]) for _ in range(2)]
    ends = [story.ends(items[0]), story.ends(items[1], "failed", "FAILED")]
    stats = {"total": 3, "success": 1, "failed": 1, "skipped": 1}
    done = story.ends(loop)
    done["meta"] = {"stats": stats}
    history = playbook(1)
    history.task()
    trail = [*opening, step, loop, *items, *ends, done, story.ends(step), *story.closing()]
    history.add("WORKFLOW_EXECUTION_COMPLETED", result=payloads({"status": "completed", "trail": trail}))
    rows = [msgspec.structs.asdict(row) for row in history.rows()]
    assert audit(rows, status="COMPLETED", stopped=False) == []
    rows.remove(_of(rows, f"loop.iteration.{lost_type}"))
    broken_invariants = audit(rows, status="COMPLETED", stopped=False)
    assert any(f"counts 1 iterations as {lost_type}, the log has 0" in invariant for invariant in broken_invariants), (
        broken_invariants
    )


def test_an_id_that_two_rows_have_is_found() -> None:
    rows = _rows()
    assert any(
        "the id of another" in invariant for invariant in audit([*rows, rows[3]], status="COMPLETED", stopped=False)
    )


def test_a_run_that_continues_need_not_have_ended() -> None:
    rows = [row for row in _rows() if row["event_type"] not in ("workflow.finished", "playbook.completed")]
    assert audit(rows, status="RUNNING", stopped=False) == []


def test_a_handled_failure_does_not_count() -> None:
    rows = _rows()
    failed = _of(rows, "step.done")
    failed["event_type"] = "step.failed"
    route = {"chosen": ["repair"], "step_run_id": "fetch#1"}
    rows.append({**failed, "event_type": "next.evaluated", "event_id": failed["event_id"] + 1, "meta": route})
    rows = [row for row in rows if row["event_type"] != "workflow.finished"]
    assert [invariant for invariant in audit(rows, status="COMPLETED", stopped=False) if "unhandled" in invariant] == []
