"""A workflow that leaves in history exactly what a script says, under the names and in the shapes of the real ones.

With it a test reaches what a playbook seldom does: workers that vanish, runs that are stopped, histories that go on.
"""

from __future__ import annotations

import asyncio
import threading
import time
from datetime import timedelta
from typing import Any

import msgspec
from temporalio import activity, workflow
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from noetl_temporal.event_ids import DERIVED, IdClock
from noetl_temporal.mirror.payloads import as_list, as_mapping
from noetl_temporal.naming import TRAIL
from noetl_temporal.workflows.trail import Trail
from tests.mirror.story import Story

QUEUE = "mirror-tests"

IS_MENDED = threading.Event()
"""While it is not set, a workflow task that comes to a ``crash`` fails."""

STARTED_AT = time.time_ns() // 1_000_000

Json = dict[str, Any]


def domain_event(type_: str, ordinal: int, status: str = "STARTED", **fields: Any) -> Json:
    """A DomainEvent as JSON. All have the time BEGAN, so that only ``ordinal`` orders them, not when they are made."""
    assert ordinal < DERIVED
    id_ = IdClock(STARTED_AT, ordinal).next(STARTED_AT, slot=0)
    fields_ = {"id": id_, "at": STARTED_AT, "type": type_, "node": "fetch", "kind": "step"}
    return {**fields_, "status": status, **fields}


def stamped_event(name: str, type_: str, node: str, kind: str, status: str = "STARTED", **fields: Any) -> Json:
    """An event that gets its id and time when the script comes to it.

    Others say ``parent`` and ``ends`` by its name; so do calls, in ``event_id``.
    """
    return {"name": name, "type": type_, "node": node, "kind": kind, "status": status, **fields}


OPENING = (
    stamped_event("requested", "playbook.execution.requested", "tests/scripted", "playbook", "PENDING"),
    stamped_event("playbook", "playbook.started", "tests/scripted", "playbook", parent="requested"),
    stamped_event("workflow", "workflow.started", "workflow", "workflow", parent="playbook"),
)
"""With what every playbook begins."""


def closing(status: str = "completed") -> tuple[Json, ...]:
    """The last lines of a script whose playbook logs its own end."""
    attributes = {"status": status.upper()}
    return (
        stamped_event(
            "", "workflow.finished", "workflow", "workflow", parent="workflow", ends="workflow", **attributes
        ),
        stamped_event(
            "", f"playbook.{status}", "tests/scripted", "playbook", parent="playbook", ends="playbook", **attributes
        ),
    )


def loop_run(execution_id: int, script: list[Json], **fields: Any) -> Json:
    """A LoopRun and its LoopBody as one JSON, with a script. Its ``input.event_id`` may be an event's name."""
    source = playbook(execution_id)["graph"]["source"]
    loop_input = {"execution_id": execution_id, "loop_id": "fetch/1", "slot": 1, "after": 0, "event_id": None, **fields}
    return {"input": loop_input, "source": source, "step": {"name": "fetch"}, "script": script}


def playbook(execution_id: int, *script: Json, **fields: Any) -> Json:
    """A RunInput and its Playbook as one JSON, with a script."""
    source = {"file": "a.yaml", "path": "tests/scripted", "name": "scripted", "version": "1", "dialect": "v10"}
    graph = {"version": 1, "digest": "d", "source": source, "workload": {"data": {"city": "Oslo"}}}
    return {"execution_id": execution_id, "graph": graph, "content": "kind: Playbook", "script": script, **fields}


def call(execution_id: int, parent: int | str, answer: Json, trail: tuple[Json, ...] = (), **fields: Any) -> Json:
    """The script's line that calls a tool with a given answer."""
    call_fields = {"id": "fetch/1:page:1", "key": f"{execution_id}/k", "step": "fetch", "task": "page", "kind": "http"}
    config = {"url": "http://x", "headers": {"Authorization": "hush"}}
    call_input = {**call_fields, "event_id": parent, "config": config, **fields}
    return {"do": "call", "call": call_input, "answer": answer, "trail": trail}


@activity.defn(name="noetl.http")
async def http(_: Json, answer: Json) -> Any:
    """Report after some ``seconds``, raise, or beat once and be lost. Times in the answer are milliseconds since the
    call began. What an ``unreadable`` call beats can be read by nobody.
    """
    answer = _with_dates(answer, time.time_ns() // 1_000_000)
    if "raise" in answer:
        raise ApplicationError(answer["raise"], type="broken", non_retryable=True)
    if "beat" in answer:
        activity.heartbeat({"records": answer["beat"]})
        await asyncio.sleep(60)
    if answer.get("unreadable"):
        activity.heartbeat(RawValue(Payload(metadata={"encoding": b"binary/unknown"}, data=b"?")))
    await asyncio.sleep(answer.get("seconds", 0.15))
    return answer.get("report")


def _with_dates(value: Any, now: int) -> Any:
    if (items := as_list(value)) is not None:
        return [_with_dates(item, now) for item in items]
    if (fields := as_mapping(value)) is not None:
        return {
            key: value + now if key in ("started", "ended") else _with_dates(value, now)
            for key, value in fields.items()
        }
    return value


class _ScriptedWorkflow:
    def __init__(self) -> None:
        self.is_resumed = False
        self.trail = Trail()
        self.story = Story(0)
        self.names: dict[str, int] = {}

    async def play(self, script_input: Json) -> Json:
        loop = script_input.get("input", {})
        self.names = script_input.get("names", {})
        self.story = Story(_now(), loop.get("slot", 0), max(script_input.get("after", 0), loop.get("after", 0)))
        for line in script_input["script"]:
            for event in line.get("trail", ()):
                event_ = self._stamp(event)
                self.trail.add(event_, len(msgspec.json.encode(event_)))
            match line["do"]:
                case "call":
                    await self._call(line)
                case "loop":
                    await self._loop(line)
                case "sleep":
                    await workflow.sleep(line["seconds"])
                case "wait":
                    await workflow.wait_condition(lambda: False)
                case "pause":
                    await workflow.wait_condition(lambda: self.is_resumed)
                case "continue":
                    continued_state = {"trail": self.trail.take(), "names": self.names, "after": self.story.own.ms}
                    workflow.continue_as_new({**script_input, "script": line["script"], **continued_state})
                case "memo":
                    workflow.upsert_memo({TRAIL: self.trail.take()})
                case _:
                    self._fail(line)
        await self.trail.wait_until_recorded()
        return {"status": "completed", "trail": self.trail.take()}

    def _fail(self, line: Json) -> None:
        match line["do"]:
            case "crash":
                if not IS_MENDED.is_set():
                    raise RuntimeError(line["why"])
            case "break":
                raise ApplicationError(line["why"], non_retryable=True)
            case _:
                raise ApplicationError(line["why"], {"trail": self.trail.take()}, non_retryable=True)

    def _stamp(self, event: Any) -> Any:
        """With its id and time, and those to which it refers."""
        if "name" not in event:
            return event
        self.story.now = _now()
        fields_ = {key: value for key, value in event.items() if key != "name"}
        fields_ |= {key: self.names[event[key]] for key in ("parent", "ends") if key in event}
        parent = fields_.pop("parent", None)
        new_event = self.story.event(
            fields_.pop("type"), fields_.pop("node"), fields_.pop("kind"), fields_.pop("status"), parent
        )
        self.names[event["name"]] = new_event["id"]
        return {**new_event, **fields_}

    async def _loop(self, line: Json) -> None:
        child_input = line["run"]["input"]
        parent_id = child_input.get("event_id")
        child_input = {**child_input, "event_id": self.names.get(parent_id, parent_id), "after": self.story.own.ms}
        id_ = f"{workflow.info().workflow_id}/{child_input['loop_id']}"
        run = {**line["run"], "input": child_input, "names": {"loop": child_input["event_id"]}}
        await workflow.execute_child_workflow(
            "noetl.loop", run, id=id_, parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL
        )

    async def _call(self, line: Json) -> None:
        call_fields: Json = line["call"]
        call_fields = {**call_fields, "event_id": self.names.get(call_fields["event_id"], call_fields["event_id"])}
        try:
            await workflow.execute_activity(
                "noetl.http",
                args=[call_fields, line["answer"]],
                start_to_close_timeout=timedelta(seconds=60),
                heartbeat_timeout=timedelta(seconds=0.3) if "beat" in line["answer"] else None,
                schedule_to_close_timeout=timedelta(seconds=0.6) if "beat" in line["answer"] else None,
            )
        except Exception:
            if "report" in line["answer"]:
                raise
        self.story.now = _now()
        self.story.leave_room(call_fields["event_id"], 3 * len(line["answer"].get("report", {}).get("attempts", [1])))


def _now() -> int:
    return workflow.time_ns() // 1_000_000


@workflow.defn(name="noetl.playbook", sandboxed=False)
class ScriptedPlaybook(_ScriptedWorkflow):
    @workflow.run
    async def run(self, script_input: Json) -> Json:
        return await self.play(script_input)

    @workflow.signal
    def resume(self) -> None:
        self.is_resumed = True


@workflow.defn(name="noetl.loop", sandboxed=False)
class ScriptedLoop(_ScriptedWorkflow):
    @workflow.run
    async def run(self, script_input: Json) -> Json:
        return await self.play(script_input)
