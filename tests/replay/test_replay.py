"""Recorded histories replay: what is in flight goes on after an upgrade. ``python -m dev.histories`` records them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, WorkflowRunner
from temporalio.workflow import NondeterminismError

from dev.histories.everything import RECORDINGS
from dev.histories.files import FOLDER, recording_of
from dev.histories.limits import limited
from noetl_temporal.inspection.replay import parse_history
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.workflows.definitions import LoopWorkflow, PlaybookWorkflow, interceptors
from tests.replay.sandbox import Sandbox
from tests.replay.sandboxed import ReadsAFile, ReadsTheClock, ReadsTheClockBelow, SandboxedLoop, SandboxedPlaybook

FILES = sorted(FOLDER.glob("*.json"))
MAX_BYTES = 5_000_000

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


async def replay(
    history: WorkflowHistory, workflows: Sequence[type] = (PlaybookWorkflow, LoopWorkflow), runner: Any = None
) -> None:
    """Raises what is wrong with the replay.

    In debug mode, which has no limit of two seconds for a workflow task: on a loaded machine the sandbox, which imports
    every module anew, takes longer.
    """
    workflow_runner: WorkflowRunner = runner or UnsandboxedWorkflowRunner()
    replayer = Replayer(
        workflows=workflows,
        workflow_runner=workflow_runner,
        interceptors=interceptors(),
        data_converter=data_converter(),
        debug_mode=True,
    )
    await replayer.replay_workflow(history)


def history_of(file: Path) -> WorkflowHistory:
    return parse_history(file.read_text())


def recorded_history(name: str) -> dict[str, Any]:
    """The first run of a recording."""
    document: dict[str, Any] = json.loads((FOLDER / f"{name}.1.playbook.json").read_text())
    return document


@each_file
async def test_a_recorded_history_replays(file: Path) -> None:
    with limited(RECORDINGS[recording_of(file)].limits):
        await replay(history_of(file))


@pytest.mark.sandbox
@each_file
async def test_it_replays_in_the_sandbox(file: Path) -> None:
    with limited(RECORDINGS[recording_of(file)].limits):
        await replay(history_of(file), (SandboxedPlaybook, SandboxedLoop), Sandbox())


@pytest.mark.sandbox
@pytest.mark.parametrize("breaks", [ReadsTheClock, ReadsTheClockBelow, ReadsAFile])
async def test_the_sandbox_refuses_what_does_not_replay(breaks: type) -> None:
    history = parse_history(json.dumps(recorded_history("sequence")))
    await replay(history, (breaks,))
    with pytest.raises(RuntimeError, match=r"Cannot access (time\.time|.*open)"):
        await replay(history, (breaks,), Sandbox())


def test_every_recording_has_its_files_and_they_are_small() -> None:
    assert {recording_of(file) for file in FILES} == set(RECORDINGS)
    assert sum(file.stat().st_size for file in FILES) < MAX_BYTES


@pytest.mark.parametrize(
    ("name", "event_type"),
    [
        ("join_wave", "ACTIVITY_TASK_SCHEDULED"),
        ("loops_beside_each_other", "START_CHILD_WORKFLOW_EXECUTION_INITIATED"),
    ],
)
async def test_a_replay_with_calls_in_another_order_is_detected(name: str, event_type: str) -> None:
    """Of the same type, commanded by one workflow task: only their ids differ."""
    history = recorded_history(name)
    pairs = pairwise(history["events"])
    case, other = next(pair for pair in pairs if {event["eventType"] for event in pair} == {f"EVENT_TYPE_{event_type}"})
    attributes = next(key for key in case if key.endswith("Attributes"))
    case[attributes], other[attributes] = other[attributes], case[attributes]
    with pytest.raises(NondeterminismError):
        await replay(parse_history(json.dumps(history)))


async def test_a_replay_with_another_call_is_detected() -> None:
    history = recorded_history("sequence")
    scheduled_events = [
        event for event in history["events"] if event["eventType"] == "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED"
    ]
    scheduled_events[-1]["activityTaskScheduledEventAttributes"]["activityType"]["name"] = "noetl.http"
    with pytest.raises(NondeterminismError):
        await replay(parse_history(json.dumps(history)))
