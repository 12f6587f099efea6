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
from noetl_temporal.trail import HEADER, Trail
from tests.mirror.story import Story

QUEUE = "mirror-tests"

MENDED = threading.Event()
"""While it is not set, a workflow task that comes to a ``crash`` fails."""

BEGAN = time.time_ns() // 1_000_000

Json = dict[str, Any]


def domain_event(type_: str, ordinal: int, status: str = "STARTED", **fields: Any) -> Json:
    """A DomainEvent as JSON. All have the time BEGAN, so that only ``ordinal`` orders them, not when they are made."""
    assert ordinal < DERIVED
    id_ = IdClock(BEGAN, ordinal).next(BEGAN, slot=0)
    named = {"id": id_, "at": BEGAN, "type": type_, "node": "fetch", "kind": "step"}
    return {**named, "status": status, **fields}


def stamped(name: str, type_: str, node: str, kind: str, status: str = "STARTED", **fields: Any) -> Json:
    """An event that gets its id and time when the script comes to it.

    Others say ``parent`` and ``ends`` by its name; so do calls, in ``event_id``.
    """
    return {"name": name, "type": type_, "node": node, "kind": kind, "status": status, **fields}


OPENING = (
    stamped("requested", "playbook.execution.requested", "tests/scripted", "playbook", "PENDING"),
    stamped("playbook", "playbook.started", "tests/scripted", "playbook", parent="requested"),
    stamped("workflow", "workflow.started", "workflow", "workflow", parent="playbook"),
)
"""With what every playbook begins."""


def closing(status: str = "completed") -> tuple[Json, ...]:
    """The last lines of a script whose playbook logs its own end."""
    attributes = {"status": status.upper()}
    return (
        stamped("", "workflow.finished", "workflow", "workflow", parent="workflow", ends="workflow", **attributes),
        stamped(
            "", f"playbook.{status}", "tests/scripted", "playbook", parent="playbook", ends="playbook", **attributes
        ),
    )


def loop_run(execution_id: int, script: list[Json], **fields: Any) -> Json:
    """A LoopRun and its LoopBody as one JSON, with a script. Its ``input.event_id`` may be an event's name."""
    source = playbook(execution_id)["graph"]["source"]
    own = {"execution_id": execution_id, "loop_id": "fetch/1", "slot": 1, "after": 0, "event_id": None, **fields}
    return {"input": own, "source": source, "step": {"name": "fetch"}, "script": script}


def playbook(execution_id: int, *script: Json, **fields: Any) -> Json:
    """A RunInput and its Playbook as one JSON, with a script."""
    source = {"file": "a.yaml", "path": "tests/scripted", "name": "scripted", "version": "1", "dialect": "v10"}
    graph = {"version": 1, "digest": "d", "source": source, "workload": {"data": {"city": "Oslo"}}}
    return {"execution_id": execution_id, "graph": graph, "content": "kind: Playbook", "script": script, **fields}


def call(execution_id: int, parent: int | str, answer: Json, trail: tuple[Json, ...] = (), **fields: Any) -> Json:
    """The script's line that calls a tool with a given answer."""
    named = {"id": "fetch/1:page:1", "key": f"{execution_id}/k", "step": "fetch", "task": "page", "kind": "http"}
    config = {"url": "http://x", "headers": {"Authorization": "hush"}}
    given = {**named, "event_id": parent, "config": config, **fields}
    return {"do": "call", "call": given, "answer": answer, "trail": trail}


@activity.defn(name="noetl.http")
async def http(_: Json, answer: Json) -> Any:
    """Report after some ``seconds``, raise, or beat once and be lost. Times in the answer are milliseconds since the
    call began. What an ``unreadable`` call beats can be read by nobody.
    """
    answer = _dated(answer, time.time_ns() // 1_000_000)
    if "raise" in answer:
        raise ApplicationError(answer["raise"], type="broken", non_retryable=True)
    if "beat" in answer:
        activity.heartbeat({"records": answer["beat"]})
        await asyncio.sleep(60)
    if answer.get("unreadable"):
        activity.heartbeat(RawValue(Payload(metadata={"encoding": b"binary/unknown"}, data=b"?")))
    await asyncio.sleep(answer.get("seconds", 0.15))
    return answer.get("report")


def _dated(value: Any, now: int) -> Any:
    if (items := as_list(value)) is not None:
        return [_dated(item, now) for item in items]
    if (fields := as_mapping(value)) is not None:
        return {
            key: value + now if key in ("started", "ended") else _dated(value, now) for key, value in fields.items()
        }
    return value


class _Scripted:
    def __init__(self) -> None:
        self.trail = Trail()
        self.story = Story(0)
        self.names: dict[str, int] = {}

    async def play(self, given: Json) -> Json:
        loop = given.get("input", {})
        self.names = given.get("names", {})
        self.story = Story(_now(), loop.get("slot", 0), max(given.get("after", 0), loop.get("after", 0)))
        for line in given["script"]:
            for event in line.get("trail", ()):
                stamped = self._stamped(event)
                self.trail.add(stamped, len(msgspec.json.encode(stamped)))
            match line["do"]:
                case "call":
                    await self._call(line)
                case "loop":
                    await self._loop(line)
                case "sleep":
                    await workflow.sleep(line["seconds"])
                case "wait":
                    await workflow.wait_condition(lambda: False)
                case "continue":
                    kept = {"trail": self.trail.take(), "names": self.names, "after": self.story.own.ms}
                    workflow.continue_as_new({**given, "script": line["script"], **kept})
                case "memo":
                    workflow.upsert_memo({HEADER: self.trail.take()})
                case _:
                    self._fail(line)
        await self.trail.wait_until_recorded()
        return {"status": "completed", "trail": self.trail.take()}

    def _fail(self, line: Json) -> None:
        match line["do"]:
            case "crash":
                if not MENDED.is_set():
                    raise RuntimeError(line["why"])
            case "break":
                raise ApplicationError(line["why"], non_retryable=True)
            case _:
                raise ApplicationError(line["why"], {"trail": self.trail.take()}, non_retryable=True)

    def _stamped(self, event: Any) -> Any:
        """With its id and time, and those to which it refers."""
        if "name" not in event:
            return event
        self.story.now = _now()
        named = {key: value for key, value in event.items() if key != "name"}
        named |= {key: self.names[event[key]] for key in ("parent", "ends") if key in event}
        parent = named.pop("parent", None)
        made = self.story.event(named.pop("type"), named.pop("node"), named.pop("kind"), named.pop("status"), parent)
        self.names[event["name"]] = made["id"]
        return {**made, **named}

    async def _loop(self, line: Json) -> None:
        given = line["run"]["input"]
        began = given.get("event_id")
        given = {**given, "event_id": self.names.get(began, began), "after": self.story.own.ms}
        id_ = f"{workflow.info().workflow_id}/{given['loop_id']}"
        run = {**line["run"], "input": given, "names": {"loop": given["event_id"]}}
        await workflow.execute_child_workflow(
            "noetl.loop", run, id=id_, parent_close_policy=workflow.ParentClosePolicy.REQUEST_CANCEL
        )

    async def _call(self, line: Json) -> None:
        given: Json = line["call"]
        given = {**given, "event_id": self.names.get(given["event_id"], given["event_id"])}
        try:
            await workflow.execute_activity(
                "noetl.http",
                args=[given, line["answer"]],
                start_to_close_timeout=timedelta(seconds=60),
                heartbeat_timeout=timedelta(seconds=0.3) if "beat" in line["answer"] else None,
                schedule_to_close_timeout=timedelta(seconds=0.6) if "beat" in line["answer"] else None,
            )
        except Exception:
            if "report" in line["answer"]:
                raise
        self.story.now = _now()
        self.story.leave_room(given["event_id"], 3 * len(line["answer"].get("report", {}).get("attempts", [1])))


def _now() -> int:
    return workflow.time_ns() // 1_000_000


@workflow.defn(name="noetl.playbook", sandboxed=False)
class ScriptedPlaybook(_Scripted):
    @workflow.run
    async def run(self, given: Json) -> Json:
        return await self.play(given)


@workflow.defn(name="noetl.loop", sandboxed=False)
class ScriptedLoop(_Scripted):
    @workflow.run
    async def run(self, given: Json) -> Json:
        return await self.play(given)
