"""What the mirror reads of a run that a schedule has started: the id that the workflow has made for itself."""

from __future__ import annotations

import json

from dev.histories.files import FOLDER
from noetl_temporal.inspection.replay import parse_history
from noetl_temporal.mirror.playbook import playbook_of
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.rows import initial_state
from noetl_temporal.naming import PLAYBOOK_WORKFLOW

HISTORY = parse_history((FOLDER / "scheduled.1.playbook.json").read_text())
STARTED, *LATER_EVENTS = HISTORY.events


def own_id() -> int:
    """The id that the first task of the workflow set in Temporal."""
    message = next(
        event for event in LATER_EVENTS if event.HasField("upsert_workflow_search_attributes_event_attributes")
    )
    attributes = message.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
    return int(json.loads(attributes["NoetlExecutionId"].data))


def test_the_id_is_that_of_the_workflow() -> None:
    run = WorkflowRun("default", HISTORY.workflow_id, HISTORY.run_id, PLAYBOOK_WORKFLOW)
    assert initial_state(run, STARTED).execution_id == own_id()


def test_the_schedule_is_known() -> None:
    playbook = playbook_of(STARTED)
    assert playbook is not None
    assert (playbook.execution_id, playbook.schedule) == (own_id(), "scheduled")
