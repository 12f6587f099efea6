"""Schedules on a real Temporal: each run has an execution id of its own, and is a run like any other (semantics 46)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import asyncpg
import pytest
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import WorkflowHistory
from temporalio.converter import WorkflowSerializationContext
from temporalio.exceptions import ApplicationError

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_temporal.client import (
    MovedSchedule,
    NoetlClient,
    PlaybookSchedule,
    RunHandle,
    ScheduleError,
    UnknownPlaybookError,
    UnknownRunError,
)
from noetl_temporal.event_ids import millisecond_of
from noetl_temporal.ids import new_execution_id, scheduled_execution_id
from noetl_temporal.inspection.replay import replay
from noetl_temporal.messages.run_input import Playbook, RunInput
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.naming import scheduled_base_id, scheduled_workflow_id
from noetl_temporal.payloads.codec import data_converter, schedule_converter
from noetl_temporal.payloads.signing import signing_key_from_environment
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: scheduled, path: PATH, priority: 2}
workload: {n: 0, text: ""}
workflow:
  - step: start
    tool: {kind: noop, message: "MESSAGE {{ workload.n }}"}
"""

NEVER = "0 0 29 2 *"
HOUR = timedelta(hours=1)
T = TypeVar("T")


class Site:
    """A client beside a worker, and a playbook that is registered under a path that only this test has."""

    def __init__(self, client: NoetlClient, folder: Path) -> None:
        self.client, self.folder = client, folder
        self.path = f"tests/schedules/{new_execution_id()}"
        self.open = asyncio.Event()
        self.open.set()

    async def answer(self, request: Request, context: ToolContext) -> Any:
        del context
        await self.open.wait()
        return request.config["message"]

    async def register(self, message: str = "one") -> Sequence[MovedSchedule]:
        file = self.folder / "a.yaml"
        file.write_text(TEXT.replace("PATH", self.path).replace("MESSAGE", message))
        return (await self.client.register(file)).moved

    async def runs(self, name: str, count: int) -> list[RunHandle]:
        """The runs of a schedule once there are so many, and have begun."""

        async def find_started_run() -> list[int] | None:
            ids = [run.execution_id for run in (await self.client.schedules.get(name)).runs]
            return [id_ for id_ in ids if id_ is not None] if len(ids) == count and None not in ids else None

        return [await self.client.find(id_) for id_ in await until(find_started_run)]

    async def trigger(self, name: str, count: int = 1) -> RunHandle:
        """A run that is started now, the ``count``-th of the schedule."""
        await self.client.schedules.trigger(name)
        return (await self.runs(name, count))[-1]


async def until(ask: Callable[[], Awaitable[T | None]]) -> T:
    async with asyncio.timeout(30):
        while not (value := await ask()):
            await asyncio.sleep(0.1)
    return value


@pytest.fixture
async def site(servers: Addresses, tmp_path: Path) -> AsyncIterator[Site]:
    await migrate(servers.postgres)
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=["noop"])
    site = Site(client, tmp_path)
    async with serving(client.temporal, {"noop": FakeTool("noop", site.answer)}, CredentialSource(environment={})):
        await site.register()
        yield site
        for schedule in await client.schedules.list(site.path):
            await client.schedules.delete(schedule.name)


@pytest.fixture
async def schedule(site: Site) -> PlaybookSchedule:
    return await site.client.schedules.add(site.path, cron=NEVER, payload={"n": 7})


async def test_a_run_has_an_id_a_log_and_a_report(site: Site, schedule: PlaybookSchedule) -> None:
    handle = await site.trigger(schedule.name)
    report = await handle.result()
    assert (report.status, report.result, report.execution_id) == ("completed", "one 7", handle.execution_id)
    assert scheduled_base_id(handle.workflow_id) == site.path
    assert abs(millisecond_of(handle.execution_id) / 1000 - datetime.now(UTC).timestamp()) < 30
    dsn = site.client.dsn or ""
    await follow_execution(site.client.temporal, dsn, handle.workflow_id)
    [listed_run] = await site.client.list(site.path)
    assert (listed_run.execution_id, listed_run.schedule, listed_run.status) == (
        handle.execution_id,
        site.path,
        "completed",
    )
    in_temporal = await NoetlClient(site.client.temporal, None, ["noop"]).list(site.path)
    assert [(run.execution_id, run.schedule) for run in in_temporal] == [(handle.execution_id, site.path)]
    events = [event async for event in handle.events()]
    assert events[-1].event_type == "playbook.completed"
    alone = RunHandle(site.client.temporal, handle.workflow, handle.execution_id, None)
    assert [event.event_id async for event in alone.events()] == [event.event_id for event in events]
    connection = await asyncpg.connect(dsn)
    assert await connection.fetchval(
        "SELECT schedule FROM noetl.execution WHERE execution_id = $1", handle.execution_id
    ) == (site.path)
    await connection.close()


async def test_a_run_has_the_priority_of_its_playbook(site: Site, schedule: PlaybookSchedule) -> None:
    handle = await site.trigger(schedule.name)
    started = (await handle.workflow.fetch_history()).events[0].workflow_execution_started_event_attributes
    assert started.priority.priority_key == 2


async def test_each_run_has_an_id_of_its_own(site: Site, schedule: PlaybookSchedule) -> None:
    end = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    await site.client.schedules.delete(schedule.name)
    hourly = await site.client.schedules.add(site.path, every=HOUR, name=f"{site.path}/hourly", paused=True)
    assert hourly.is_paused
    await site.client.schedules.backfill(hourly.name, end - 2 * HOUR, end)
    handles = await site.runs(hourly.name, 3)
    assert len({handle.execution_id for handle in handles}) == 3
    assert {(await handle.result()).status for handle in handles} == {"completed"}


async def test_a_reset_keeps_the_id(site: Site, schedule: PlaybookSchedule) -> None:
    handle = await site.trigger(schedule.name)
    before = await handle.result()
    request = ResetWorkflowExecutionRequest(
        namespace=site.client.temporal.namespace,
        workflow_execution=WorkflowExecution(workflow_id=handle.workflow_id, run_id=handle.run_id or ""),
        reason="test",
        workflow_task_finish_event_id=4,
        request_id=str(new_execution_id()),
    )
    await site.client.temporal.workflow_service.reset_workflow_execution(request)

    async def find_started_run() -> RunHandle | None:
        try:
            return await site.client.handle(handle.workflow_id)
        except UnknownRunError:
            return None

    second_report = await (await until(find_started_run)).result()
    assert (second_report.execution_id, second_report.status) == (before.execution_id, "completed")


async def test_its_history_replays(site: Site, schedule: PlaybookSchedule) -> None:
    handle = await site.trigger(schedule.name)
    await handle.result()
    history: WorkflowHistory = await handle.workflow.fetch_history()
    upserts = [
        event for event in history.events if event.event_type == EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES
    ]
    assert len(upserts) == 2  # the execution id, and the status at the end
    started = history.events[0]
    run_id = started.workflow_execution_started_event_attributes.first_execution_run_id
    assert scheduled_execution_id(started.event_time.ToDatetime(UTC), run_id) == handle.execution_id
    assert (await replay(history, site.client.temporal.data_converter)).problem is None


async def test_large_values_of_the_input_are_stored(site: Site) -> None:
    added_schedule = await site.client.schedules.add(site.path, cron=NEVER, payload={"text": "x" * 200_000, "n": 3})
    assert added_schedule.payload == {"text": "x" * 200_000, "n": 3}
    assert (await (await site.trigger(added_schedule.name)).result()).result == "one 3"


async def test_a_schedule_of_a_path_follows_it_and_a_pinned_one_does_not(
    site: Site, schedule: PlaybookSchedule
) -> None:
    pinned_schedule = await site.client.schedules.add(site.path, 1, name=f"{site.path}/pinned", cron=NEVER)
    assert (schedule.version, schedule.follows, pinned_schedule.version, pinned_schedule.follows) == (1, True, 1, False)

    async def is_listed() -> bool:
        return len(await site.client.schedules.list(site.path)) == 2

    await until(is_listed)
    moved_paths = await site.register("two")
    assert moved_paths == [(schedule.name, site.path, 1, 2, "")]
    assert await site.register("two") == []
    assert (await (await site.trigger(schedule.name)).result()).result == "two 7"
    assert (await (await site.trigger(pinned_schedule.name)).result()).result == "one 0"
    assert (await site.client.schedules.get(schedule.name)).version == 2


async def test_a_schedule_gets_the_newest_of_concurrent_versions(site: Site, schedule: PlaybookSchedule) -> None:
    async def is_listed() -> bool:
        return bool(await site.client.schedules.list(site.path))

    await until(is_listed)
    files = [site.folder / f"{number}.yaml" for number in range(6)]
    for file in files:
        file.write_text(TEXT.replace("PATH", site.path).replace("MESSAGE", file.stem))
    await asyncio.gather(*map(site.client.register, files))
    newest = await site.client.catalog.get(site.path)
    assert newest.version == 7
    assert (await (await site.trigger(schedule.name)).result()).result == f"{Path(newest.file).stem} 7"


async def test_an_unsupported_version_moves_no_schedule(site: Site, schedule: PlaybookSchedule) -> None:
    async def is_listed() -> bool:
        return bool(await site.client.schedules.list(site.path))

    await until(is_listed)
    file = site.folder / "a.yaml"
    file.write_text(TEXT.replace("PATH", site.path).replace("noop, message", "shell, command"))
    [moved_path] = (await site.client.register(file)).moved
    assert "there is no tool 'shell' here" in moved_path.problem
    assert (await site.client.schedules.get(schedule.name)).version == 1


async def test_a_run_is_skipped_while_another_one_runs(site: Site, schedule: PlaybookSchedule) -> None:
    site.open.clear()
    handle = await site.trigger(schedule.name)
    await site.client.schedules.trigger(schedule.name)

    async def was_skipped() -> bool:
        return (await site.client.schedules.get(schedule.name)).skipped == 1

    await until(was_skipped)
    site.open.set()
    assert (await handle.result()).status == "completed"
    assert (await site.client.schedules.get(schedule.name)).started == 1


async def test_pause_and_resume(site: Site, schedule: PlaybookSchedule) -> None:
    schedules = site.client.schedules
    await schedules.pause(schedule.name, "source is down")
    stored_schedule = await schedules.get(schedule.name)
    assert (stored_schedule.is_paused, stored_schedule.note) == (True, "source is down")
    await schedules.pause(schedule.name)
    assert (await schedules.get(schedule.name)).note == "source is down"
    await schedules.resume(schedule.name)
    assert not (await schedules.get(schedule.name)).is_paused
    await schedules.delete(schedule.name)
    with pytest.raises(ScheduleError, match="there is no schedule"):
        await schedules.get(schedule.name)


async def test_a_schedule_is_described_as_it_was_created(site: Site) -> None:
    added_schedule = await site.client.schedules.add(
        site.path,
        cron=["0 6 * * 1-5", "0 9 * * 6"],
        every=HOUR,
        time_zone="Europe/Oslo",
        jitter=timedelta(minutes=2),
        overlap="buffer_one",
        catch_up=timedelta(hours=2),
    )
    assert added_schedule.times.cron == ("0 6 * * 1-5", "0 9 * * 6")
    assert (added_schedule.times.every, added_schedule.times.jitter, added_schedule.times.time_zone) == (
        3600,
        120,
        "Europe/Oslo",
    )
    assert (added_schedule.overlap, added_schedule.catch_up) == ("buffer_one", timedelta(hours=2))
    assert len(added_schedule.next) > 1
    assert (await site.client.schedules.add(site.path, cron=NEVER, name="x" * 200)).catch_up == timedelta(minutes=10)
    await site.client.schedules.delete("x" * 200)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"cron": "61 * * * *"}, "the cron expression '61 .*' is invalid: the minute must be from 0 to 59$"),
        ({"cron": [NEVER, "0 6 32 * *"]}, "one of the cron expressions .*: the day of month must be from 1 to 31$"),
        ({"cron": "hourly"}, "the cron expression 'hourly' needs five fields: minute, hour, "),
        (
            {"cron": NEVER, "time_zone": "Mars/Base"},
            "^the times of the schedule are invalid: unknown time zone Mars/Base$",
        ),
        ({}, "a schedule needs times"),
        ({"every": timedelta(milliseconds=1)}, "at least a second"),
        ({"cron": NEVER, "name": "a\nb"}, "1 to 200 printable characters"),
    ],
)
async def test_invalid_schedules_are_refused(site: Site, arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ScheduleError, match=expected):
        await site.client.schedules.add(site.path, **arguments)


async def test_names_in_use_or_unknown(site: Site, schedule: PlaybookSchedule) -> None:
    schedules = site.client.schedules
    with pytest.raises(ScheduleError, match="already"):
        await schedules.add(site.path, cron=NEVER)
    with pytest.raises(UnknownPlaybookError):
        await schedules.add(f"{site.path}/nowhere", cron=NEVER)
    for ask in (schedules.get, schedules.pause, schedules.resume, schedules.trigger, schedules.delete):
        with pytest.raises(ScheduleError, match="there is no schedule"):
            await ask("nowhere")
        with pytest.raises(ScheduleError, match="there is no schedule"):
            await ask("\udcff")
    with pytest.raises(ScheduleError, match="need a time zone"):
        await schedules.backfill(schedule.name, datetime(2026, 1, 1), datetime(2026, 1, 2))
    with pytest.raises(ScheduleError, match="ends after it starts"):
        await schedules.backfill(schedule.name, datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("name", ["etl/load", "a" * 200, "ü" * 200, "a\tb"])
def test_workflow_ids_of_schedules(name: str) -> None:
    workflow_id = scheduled_workflow_id(name)
    assert len(f"{workflow_id}-2026-11-23T06:00:00Z".encode()) <= 200
    assert scheduled_base_id(f"{workflow_id}-2026-11-23T06:00:00Z") == workflow_id
    assert scheduled_base_id(workflow_id) is None


async def test_a_signature_is_for_its_own_schedule() -> None:
    """Nor does what is signed for a run start another under an id that looks like a schedule's."""
    signing_converter = data_converter(None, signing_key_from_environment())
    graph = compile_or_raise(TEXT.replace("PATH", "etl/a"))
    arguments = [RunInput(0, "etl/a", "", graph.digest, schedule="etl/a"), Playbook(graph, "")]

    def at(workflow_id: str) -> Any:
        return signing_converter.with_context(
            WorkflowSerializationContext(namespace="default", workflow_id=workflow_id)
        )

    async def is_taken(payloads: Any, workflow_id: str) -> bool:
        try:
            await at(workflow_id).decode(payloads, [RunInput, Playbook])
        except ApplicationError:
            return False
        return True

    of_schedule = await schedule_converter(signing_converter, "default", "etl/a").encode(arguments)
    of_run = await at("etl/a").encode(arguments)
    assert await is_taken(of_schedule, "etl/a-2026-11-23T06:00:00Z")
    assert await is_taken(of_run, "etl/a")
    assert not await is_taken(of_schedule, "etl/b-2026-11-23T06:00:00Z")
    assert not await is_taken(of_schedule, "etl/a")
    assert not await is_taken(of_run, "etl/a-2026-11-23T06:00:00Z")
    assert not await is_taken(list(reversed(of_schedule)), "etl/a-2026-11-23T06:00:00Z")
