"""A workflow that leaves in history exactly what a script says, under the names and in the shapes of the real ones.

With it a test reaches what a playbook seldom does: workers that vanish, runs that are stopped, histories that go on.
"""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import Any

from temporalio import activity, workflow
from temporalio.exceptions import ApplicationError

from noetl_temporal.machine.domain import event_id
from noetl_temporal.mirror.payloads import as_list, as_map
from noetl_temporal.trail import HEADER, Trail

QUEUE = "mirror-tests"

Json = dict[str, Any]


def domain_event(type_: str, ordinal: int, status: str = "STARTED", **fields: Any) -> Json:
    """A DomainEvent as JSON, of now."""
    at = time.time_ns() // 1_000_000
    named = {"id": event_id(at, 0, ordinal), "at": at, "type": type_, "node": "fetch", "kind": "step", "status": status}
    return {**named, **fields}


def playbook(execution_id: int, *script: Json, **fields: Any) -> Json:
    """A RunInput as JSON, with a script."""
    source = {"file": "a.yaml", "path": "tests/scripted", "name": "scripted", "version": "1", "dialect": "v10"}
    graph = {"version": 1, "digest": "d", "source": source, "workload": {"data": {"city": "Oslo"}}}
    return {"execution_id": execution_id, "graph": graph, "content": "kind: Playbook", "script": script, **fields}


def call(execution_id: int, parent: int, answer: Json, trail: tuple[Json, ...] = (), **fields: Any) -> Json:
    """The script's line that calls a tool which answers as told."""
    named = {"id": "fetch/1:page:1", "key": "k", "step": "fetch", "task": "page", "kind": "http", "lane": 0}
    config = {"url": "http://x", "headers": {"Authorization": "hush"}}
    given = {**named, "execution_id": execution_id, "event_id": parent, "dialect": "v10", "config": config, **fields}
    return {"do": "call", "call": given, "answer": answer, "trail": trail}


@activity.defn(name="noetl.http")
async def http(_: Json, answer: Json) -> Any:
    """Report, raise, or beat once and be lost. Times in the answer are milliseconds since the call began."""
    answer = _dated(answer, time.time_ns() // 1_000_000)
    if "raise" in answer:
        raise ApplicationError(answer["raise"], type="broken", non_retryable=True)
    if "beat" in answer:
        activity.heartbeat(answer["beat"])
        await asyncio.sleep(60)
    await asyncio.sleep(0.15)
    return answer.get("report")


def _dated(value: Any, now: int) -> Any:
    if (items := as_list(value)) is not None:
        return [_dated(one, now) for one in items]
    if (fields := as_map(value)) is not None:
        return {key: one + now if key in ("started", "ended") else _dated(one, now) for key, one in fields.items()}
    return value


class _Scripted:
    def __init__(self) -> None:
        self.trail = Trail()

    async def play(self, given: Json) -> Json:
        for line in given["script"]:
            for event in line.get("trail", ()):
                self.trail.add(event)
            match line["do"]:
                case "call":
                    await self._call(line)
                case "loop":
                    id_ = f"{workflow.info().workflow_id}/{line['run']['input']['loop_id']}"
                    await workflow.execute_child_workflow("noetl.loop", line["run"], id=id_)
                case "sleep":
                    await workflow.sleep(line["seconds"])
                case "continue":
                    workflow.continue_as_new({**given, "script": line["script"], "trail": self.trail.take()})
                case "memo":
                    workflow.upsert_memo({HEADER: self.trail.take()})
                case _:
                    raise ApplicationError(line["why"], {"trail": self.trail.take()}, non_retryable=True)
        return {"status": "completed", "trail": self.trail.take()}

    async def _call(self, line: Json) -> None:
        try:
            await workflow.execute_activity(
                "noetl.http",
                args=[line["call"], line["answer"]],
                start_to_close_timeout=timedelta(seconds=60),
                heartbeat_timeout=timedelta(seconds=0.3),
                schedule_to_close_timeout=timedelta(seconds=0.6) if "beat" in line["answer"] else None,
            )
        except Exception:
            if "report" in line["answer"]:
                raise


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
