"""The fold, over histories of real runs: goldens, and the laws that hold for any of them."""

from __future__ import annotations

from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.mirror.event_row import EventRow
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.rows import fold, initial_state
from noetl_temporal.mirror.run_state import RunState
from tests.audit import audit
from tests.mirror.built import START, begin, playbook
from tests.mirror.recorded import FOLDER, NAMES, read, rows_of, rows_text
from tests.mirror.story import Story

RUNS = {f"{name}-{number}": run for name in NAMES for number, run in enumerate(read(name))}


@pytest.mark.parametrize("name", NAMES)
def test_recorded_histories_give_the_rows_they_gave(name: str) -> None:
    assert rows_text(read(name)) == (FOLDER / f"histories/{name}.rows.jsonl").read_text()


def _folded_in_parts(run: WorkflowRun, events: list[HistoryEvent], cuts: list[int]) -> list[EventRow]:
    """The state goes through JSON at every cut, as through noetl.cursor."""
    earlier = {event.event_id: event for event in events}
    state, rows = initial_state(run, events[0]), list[EventRow]()
    for start, end in pairwise([0, *sorted(cuts), len(events)]):
        rows += fold(state, events[start:end], earlier)
        state = msgspec.json.decode(msgspec.json.encode(state), type=RunState)
    return rows


@given(st.sampled_from(sorted(RUNS)), st.lists(st.integers(0, 40), max_size=6))
def test_any_parts_give_what_the_whole_gives(name: str, cuts: list[int]) -> None:
    runs = RUNS[name]
    events = runs.events()
    assert _folded_in_parts(runs.run, events, [min(cut, len(events)) for cut in cuts]) == rows_of(runs)


@given(st.lists(st.integers(0, 12), max_size=6))
def test_any_parts_of_a_run_that_is_stopped_give_what_the_whole_gives(cuts: list[int]) -> None:
    history = playbook(1)
    begin(history, Story(START))
    history.task_fails("NON_DETERMINISTIC_ERROR", "another build")
    history.task()
    history.task_times_out()
    history.task_times_out()
    history.add("WORKFLOW_EXECUTION_TERMINATED", reason="enough")
    rows = history.rows()
    assert sum(row.event_type.endswith("cancelled") for row in rows) == 3
    assert _folded_in_parts(history.run, history.events, cuts) == rows


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_run_has_a_consistent_log(name: str) -> None:
    rows = sorted((row for run in read(name) for row in rows_of(run)), key=lambda row: row.event_id)
    assert audit([msgspec.structs.asdict(row) for row in rows], status=rows[-1].status, stopped=False) == []
    assert rows[-1].event_type in ("playbook.completed", "playbook.failed")


def test_a_flaky_endpoint_reads_as_one_call_of_two_attempts() -> None:
    rows = [row for run in read("flaky") for row in rows_of(run)]
    rows = sorted((row for row in rows if row.node_name == "fetch"), key=lambda row: row.event_id)
    assert [(row.event_type, row.meta.get("do"), row.meta.get("delay")) for row in rows] == [
        ("task.started", None, None),
        ("task.attempt.started", None, None),
        ("task.attempt.failed", None, None),
        ("policy.task.evaluated", "retry", 0.2),
        ("task.attempt.started", None, None),
        ("task.attempt.done", None, None),
        ("policy.task.evaluated", "continue", None),
        ("task.done", None, None),
    ]
    assert {row.parent_event_id for row in rows[1:]} == {rows[0].event_id}


def test_the_workload_is_reported_without_its_secrets() -> None:
    request_row = rows_of(read("flaky")[0])[0]
    assert request_row.context is not None
    assert request_row.context["workload"] == {"api_url": "http://127.0.0.1:5555"}


def test_every_page_has_its_sink() -> None:
    loop = rows_of(read("pages")[1])
    sink_rows = [(row.meta["iteration"], row.meta["page"]) for row in loop if row.event_type == "sink.done"]
    assert sink_rows == [(0, 1), (0, 2), (1, 1)]
