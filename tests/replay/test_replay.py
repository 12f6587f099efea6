"""Histories of earlier releases replay: what is in flight goes on after an upgrade."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner
from temporalio.workflow import NondeterminismError

from noetl_temporal.codec import data_converter
from noetl_temporal.trail import TrailInterceptor
from noetl_temporal.workflows import LoopWorkflow, PlaybookWorkflow

HISTORIES = sorted((Path(__file__).parent / "histories").glob("*.json"))


TEXTS = {file.stem: file.read_text() for file in HISTORIES}


def replayer() -> Replayer:
    return Replayer(
        workflows=[PlaybookWorkflow, LoopWorkflow],
        workflow_runner=UnsandboxedWorkflowRunner(),
        interceptors=[TrailInterceptor()],
        data_converter=data_converter(),
    )


def workflow_id(text: str) -> str:
    started = json.loads(text)["events"][0]["workflowExecutionStartedEventAttributes"]
    found: str = started["workflowId"]
    return found


@pytest.mark.parametrize("file", HISTORIES, ids=lambda file: file.stem)
async def test_a_recorded_history_replays(file: Path) -> None:
    await replayer().replay_workflow(WorkflowHistory.from_json(workflow_id(TEXTS[file.stem]), TEXTS[file.stem]))


def test_there_are_histories() -> None:
    assert len(HISTORIES) >= 8


async def test_another_order_of_commands_is_caught() -> None:
    """The check itself: a history whose second call is another one does not replay."""
    text = TEXTS["sequence"]
    history = json.loads(text)
    scheduled = [one for one in history["events"] if one["eventType"] == "EVENT_TYPE_ACTIVITY_TASK_SCHEDULED"]
    scheduled[-1]["activityTaskScheduledEventAttributes"]["activityType"]["name"] = "noetl.http"
    with pytest.raises(NondeterminismError):
        await replayer().replay_workflow(WorkflowHistory.from_json(workflow_id(text), json.dumps(history)))
