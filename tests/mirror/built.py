"""Histories made by hand: what no playbook does in a test's time, in the shapes of the real ones."""

from __future__ import annotations

from typing import Any

import msgspec
from temporalio.api.common.v1 import ActivityType, Payload, Payloads, WorkflowExecution, WorkflowType
from temporalio.api.enums.v1 import ContinueAsNewInitiator, EventType, TimeoutType, WorkflowTaskFailedCause
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent

from noetl_temporal.messages.packed_trail import pack, to_payload
from noetl_temporal.mirror.event_row import EventRow
from noetl_temporal.mirror.payloads import as_mapping
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.rows import fold, initial_state
from noetl_temporal.mirror.run_state import RunState
from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW
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

    def __init__(self, run: WorkflowRun, run_input: Json, now: int = START, **started: Any) -> None:
        self.run, self.given, self.now = run, run_input, now
        self.events: list[HistoryEvent] = []
        attributes = {"first_execution_run_id": run.run_id, "input": payloads(run_input)}
        self.add("WORKFLOW_EXECUTION_STARTED", **{**attributes, **started})

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
        scheduled_id = self.add("WORKFLOW_TASK_SCHEDULED", attempt=attempt)
        started = self.add("WORKFLOW_TASK_STARTED", scheduled_event_id=scheduled_id)
        self.add(
            "WORKFLOW_TASK_COMPLETED", scheduled_event_id=scheduled_id, started_event_id=started, identity="7@host"
        )

    def task_fails(self, cause: str, message: str = "", trace: str = "", **fields: Any) -> None:
        """A workflow task that fails."""
        self.add("WORKFLOW_TASK_SCHEDULED", attempt=1)
        cause_value = WorkflowTaskFailedCause.Value(f"WORKFLOW_TASK_FAILED_CAUSE_{cause}")
        failure = Failure(message=message, stack_trace=trace)
        self.add("WORKFLOW_TASK_FAILED", cause=cause_value, failure=failure, identity="7@host", **fields)

    def task_times_out(self) -> None:
        """A workflow task of which nothing is heard."""
        self.add("WORKFLOW_TASK_SCHEDULED", attempt=1)
        self.add("WORKFLOW_TASK_TIMED_OUT", timeout_type=TimeoutType.TIMEOUT_TYPE_START_TO_CLOSE)

    def call(self, parent: int, trail: list[Json] | None = None, **fields: Any) -> int:
        """A tool call is scheduled, with the events that its header carries."""
        call_fields = {"id": f"fetch#1:page:{len(self.events)}", "step": "fetch", "task": "page", "kind": "http"}
        scheduled_id = self.add(
            "ACTIVITY_TASK_SCHEDULED", input=payloads({**call_fields, "event_id": parent, **fields})
        )
        if trail:
            self._header(trail)
        return scheduled_id

    def starts_child(self, trail: list[Json]) -> int:
        """A child is started, with the events that its header carries."""
        initiated_id = self.add("START_CHILD_WORKFLOW_EXECUTION_INITIATED")
        self._header(trail)
        return initiated_id

    def _header(self, trail: list[Json]) -> None:
        event = self.events[-1]
        attributes = getattr(event, event.WhichOneof("attributes") or "")
        attributes.header.fields["noetl-trail"].CopyFrom(to_payload(pack(trail)))

    def start_activity(self, scheduled_id: int, attempt: int = 1) -> int:
        """A worker took the call."""
        return self.add("ACTIVITY_TASK_STARTED", scheduled_event_id=scheduled_id, attempt=attempt, identity="7@host")

    def answers(self, scheduled_id: int, report: Json) -> None:
        """A worker took the call and reports."""
        started = self.start_activity(scheduled_id)
        references = {"scheduled_event_id": scheduled_id, "started_event_id": started}
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
    run_input: Json = {"execution_id": execution_id, "graph": graph, "content": "kind: Playbook", **fields}
    return History(WorkflowRun("default", f"tests/built/{execution_id}", run_id, PLAYBOOK_WORKFLOW), run_input, now)


def loop(
    execution_id: int, event_id: int, *, slot: int = 1, after: int = 0, now: int = START, **started: Any
) -> History:
    """A loop's history that has begun. ``event_id`` is that of loop.started."""
    loop_fields = {"execution_id": execution_id, "loop_id": "fetch/1"}
    loop_input = {**loop_fields, "slot": slot, "after": after, "event_id": event_id}
    run_input = {"input": loop_input, "source": SOURCE, "step": {"name": "fetch"}}
    return History(
        WorkflowRun("default", f"tests/built/{execution_id}/fetch/1", f"l{slot}", LOOP_WORKFLOW),
        run_input,
        now,
        **started,
    )


def child(of: History, event_id: int, initiated_id: int, *, slot: int) -> History:
    """The history of a chunk that begins now, by the parent's event ``initiated``."""
    parent = WorkflowExecution(workflow_id=of.run.workflow_id, run_id=of.run.run_id)
    attributes: Json = {"parent_workflow_execution": parent, "parent_initiated_event_id": initiated_id}
    return loop(of.given["execution_id"], event_id, slot=slot, now=of.now, **attributes)


def called_playbook(of: History, execution_id: int, *, run_id: str) -> History:
    """The history of a playbook that ``of`` calls now."""
    initiated_id = of.starts_child([])
    parent = WorkflowExecution(workflow_id=of.run.workflow_id, run_id=of.run.run_id)
    child_history = playbook(execution_id, run_id=run_id, now=of.now)
    attributes: Json = {"parent_workflow_execution": parent, "parent_initiated_event_id": initiated_id}
    run_input = {**child_history.given, "parent_execution_id": of.given["execution_id"]}
    return History(child_history.run, run_input, of.now, **attributes)


def continue_as_new(history: History, *, run_id: str, **fields: Any) -> History:
    """The run that goes on after a history, which ends with it."""
    run_input = {**history.given, **fields}
    history.add("WORKFLOW_EXECUTION_CONTINUED_AS_NEW", input=payloads(run_input), new_execution_run_id=run_id)
    initiator = ContinueAsNewInitiator.CONTINUE_AS_NEW_INITIATOR_WORKFLOW
    first = history.events[0].workflow_execution_started_event_attributes.first_execution_run_id
    started = {"continued_execution_run_id": history.run.run_id, "first_execution_run_id": first}
    return History(history.run._replace(run_id=run_id), run_input, history.now + 1, initiator=initiator, **started)


def reset(base: History, *, at: int, run_id: str, now: int) -> History:
    """The run that a reset makes: it has the events of ``base`` before the event ``at``."""
    copy = History(base.run._replace(run_id=run_id), base.given, now)
    copy.events = base.events[: at - 1]
    scheduled_id = copy.events[-1].event_id
    cause = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW
    attributes = {"cause": cause, "failure": Failure(message="once more"), "base_run_id": base.run.run_id}
    copy.add("WORKFLOW_TASK_FAILED", scheduled_event_id=scheduled_id, new_run_id=run_id, **attributes)
    return copy


def begin(history: History, story: Story) -> int:
    """The events with which every playbook begins and a step of it, in the header of a call; the task's own."""
    opening = story.opening()
    step = story.begins("step.started", "fetch", "step", story.workflow, meta={"step_run_id": "fetch#1"})
    task = story.begins("task.started", "page", "http", step["id"], meta={"task_run_id": "fetch#1:page:1"})
    history.task()
    history.call(task["id"], [*opening, step, task])
    return int(task["id"])
