"""Histories made by hand: what no playbook does in a test's time, in the shapes of the real ones."""

from __future__ import annotations

from typing import Any

import msgspec
from temporalio.api.common.v1 import ActivityType, Payload, Payloads, WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import ContinueAsNewInitiator, EventType, TimeoutType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.mirror.event_row import EventRow
from noetl_temporal.mirror.payloads import as_mapping
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.rows import fold, initial_state
from noetl_temporal.mirror.run_state import RunState
from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW
from noetl_temporal.packed_trail import pack, to_payload
from tests.mirror.story import Story

Json = dict[str, Any]

START = 1_795_000_000_000
SOURCE = {"file": "a.yaml", "path": "tests/built", "name": "built", "version": "1", "dialect": "v10"}


def payloads(value: Any) -> Payloads:
    """A value as its only payload; the events in its ``trail`` are packed."""
    fields = as_mapping(value) or {}
    if fields.get("trail"):
        value = {**fields, "trail": pack(fields["trail"])}
    return Payloads(payloads=[Payload(metadata={"encoding": b"json/plain"}, data=msgspec.json.encode(value))])


class History:
    """A run's events so far. ``now`` is the time of the next one, milliseconds since the epoch."""

    def __init__(self, run: WorkflowRun, given: Json, now: int = START, **started: Any) -> None:
        self.run, self.given, self.now = run, given, now
        self.events: list[HistoryEvent] = []
        own = {"first_execution_run_id": run.run_id, "input": payloads(given)}
        self.add("WORKFLOW_EXECUTION_STARTED", **{**own, **started})

    def add(self, type_: str, **attributes: Any) -> int:
        """Append an event; its id."""
        event = HistoryEvent(event_id=len(self.events) + 1, event_type=EventType.Value(f"EVENT_TYPE_{type_}"))
        event.event_time.FromMilliseconds(self.now)
        getattr(event, f"{type_.lower()}_event_attributes").SetInParent()
        for name, value in attributes.items():
            target = getattr(event, f"{type_.lower()}_event_attributes")
            if isinstance(value, ActivityType | Failure | Payloads | WorkflowExecution | WorkflowType):
                getattr(target, name).CopyFrom(value)
            else:
                setattr(target, name, value)
        self.events.append(event)
        return event.event_id

    def task(self, attempt: int = 1) -> None:
        """A workflow task that a worker completes."""
        scheduled = self.add("WORKFLOW_TASK_SCHEDULED", attempt=attempt)
        started = self.add("WORKFLOW_TASK_STARTED", scheduled_event_id=scheduled)
        self.add("WORKFLOW_TASK_COMPLETED", scheduled_event_id=scheduled, started_event_id=started, identity="7@host")

    def task_fails(self, cause: str, message: str = "", trace: str = "", **fields: Any) -> None:
        """A workflow task that fails."""
        self.add("WORKFLOW_TASK_SCHEDULED", attempt=1)
        named = WorkflowTaskFailedCause.Value(f"WORKFLOW_TASK_FAILED_CAUSE_{cause}")
        failure = Failure(message=message, stack_trace=trace)
        self.add("WORKFLOW_TASK_FAILED", cause=named, failure=failure, identity="7@host", **fields)

    def task_times_out(self) -> None:
        """A workflow task of which nothing is heard."""
        self.add("WORKFLOW_TASK_SCHEDULED", attempt=1)
        self.add("WORKFLOW_TASK_TIMED_OUT", timeout_type=TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE)

    def call(self, parent: int, trail: list[Json] | None = None, **fields: Any) -> int:
        """A tool call is scheduled, with the events that its header carries."""
        named = {"id": f"fetch#1:page:{len(self.events)}", "step": "fetch", "task": "page", "kind": "http"}
        scheduled = self.add("ACTIVITY_TASK_SCHEDULED", input=payloads({**named, "event_id": parent, **fields}))
        if trail:
            self._header(trail)
        return scheduled

    def starts_child(self, trail: list[Json]) -> int:
        """A child is started, with the events that its header carries."""
        initiated = self.add("START_CHILD_WORKFLOW_EXECUTION_INITIATED")
        self._header(trail)
        return initiated

    def _header(self, trail: list[Json]) -> None:
        event = self.events[-1]
        attributes = getattr(event, event.WhichOneof("attributes") or "")
        attributes.header.fields["noetl-trail"].CopyFrom(to_payload(pack(trail)))

    def taken(self, scheduled: int, attempt: int = 1) -> int:
        """A worker took the call."""
        return self.add("ACTIVITY_TASK_STARTED", scheduled_event_id=scheduled, attempt=attempt, identity="7@host")

    def answers(self, scheduled: int, report: Json) -> None:
        """A worker took the call and reports."""
        started = self.taken(scheduled)
        references = {"scheduled_event_id": scheduled, "started_event_id": started}
        self.add("ACTIVITY_TASK_COMPLETED", result=payloads(report), **references)

    def rows(self, before: RunState | None = None) -> list[EventRow]:
        """The rows of the whole."""
        state = initial_state(self.run, self.events[0], before)
        return fold(state, self.events, {event.event_id: event for event in self.events})

    def state(self) -> RunState:
        """What the fold remembers at the end."""
        state = initial_state(self.run, self.events[0])
        fold(state, self.events, {event.event_id: event for event in self.events})
        return state


def playbook(execution_id: int, *, run_id: str = "r1", now: int = START, **fields: Any) -> History:
    """A playbook's history that has begun, both parts of its input in one."""
    graph: Json = {"version": 1, "digest": "d", "source": SOURCE, "workload": {"data": {}}}
    given: Json = {"execution_id": execution_id, "graph": graph, "content": "kind: Playbook", **fields}
    return History(WorkflowRun("default", f"tests/built/{execution_id}", run_id, PLAYBOOK_WORKFLOW), given, now)


def loop(
    execution_id: int, event_id: int, *, slot: int = 1, after: int = 0, now: int = START, **started: Any
) -> History:
    """A loop's history that has begun. ``event_id`` is that of loop.started."""
    named = {"execution_id": execution_id, "loop_id": "fetch/1"}
    own = {**named, "slot": slot, "after": after, "event_id": event_id}
    given = {"input": own, "source": SOURCE, "step": {"name": "fetch"}}
    return History(
        WorkflowRun("default", f"tests/built/{execution_id}/fetch/1", f"l{slot}", LOOP_WORKFLOW), given, now, **started
    )


def child(of: History, event_id: int, initiated: int, *, slot: int) -> History:
    """The history of a chunk that begins now, by the parent's event ``initiated``."""
    parent = WorkflowExecution(workflow_id=of.run.workflow_id, run_id=of.run.run_id)
    attributes: Json = {"parent_workflow_execution": parent, "parent_initiated_event_id": initiated}
    return loop(of.given["execution_id"], event_id, slot=slot, now=of.now, **attributes)


def called(of: History, execution_id: int, *, run_id: str) -> History:
    """The history of a playbook that ``of`` calls now."""
    initiated = of.starts_child([])
    parent = WorkflowExecution(workflow_id=of.run.workflow_id, run_id=of.run.run_id)
    begun = playbook(execution_id, run_id=run_id, now=of.now)
    attributes: Json = {"parent_workflow_execution": parent, "parent_initiated_event_id": initiated}
    given = {**begun.given, "parent_execution_id": of.given["execution_id"]}
    return History(begun.run, given, of.now, **attributes)


def continued(history: History, *, run_id: str, **fields: Any) -> History:
    """The run that goes on after a history, which ends with it."""
    given = {**history.given, **fields}
    history.add("WORKFLOW_EXECUTION_CONTINUED_AS_NEW", input=payloads(given), new_execution_run_id=run_id)
    initiator = ContinueAsNewInitiator.CONTINUE_AS_NEW_INITIATOR_WORKFLOW
    first = history.events[0].workflow_execution_started_event_attributes.first_execution_run_id
    started = {"continued_execution_run_id": history.run.run_id, "first_execution_run_id": first}
    return History(history.run._replace(run_id=run_id), given, history.now + 1, initiator=initiator, **started)


def reset(base: History, *, at: int, run_id: str, now: int) -> History:
    """The run that a reset makes: it has the events of ``base`` before the event ``at``."""
    made = History(base.run._replace(run_id=run_id), base.given, now)
    made.events = base.events[: at - 1]
    scheduled = made.events[-1].event_id
    cause = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
    attributes = {"cause": cause, "failure": Failure(message="once more"), "base_run_id": base.run.run_id}
    made.add("WORKFLOW_TASK_FAILED", scheduled_event_id=scheduled, new_run_id=run_id, **attributes)
    return made


def begun(history: History, story: Story) -> int:
    """The events with which every playbook begins and a step of it, in the header of a call; the task's own."""
    opening = story.opening()
    step = story.begins("step.started", "fetch", "step", story.workflow, meta={"step_run_id": "fetch#1"})
    task = story.begins("task.started", "page", "http", step["id"], meta={"task_run_id": "fetch#1:page:1"})
    history.task()
    history.call(task["id"], [*opening, step, task])
    return int(task["id"])
