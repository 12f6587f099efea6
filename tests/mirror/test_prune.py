"""``noetl prune`` on real servers: what nobody needs goes, and what anybody may need stays."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import msgspec
import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import Schedule, ScheduleActionStartWorkflow, ScheduleSpec, ScheduleState
from temporalio.converter import StorageDriverStoreContext

from noetl_activities.tool import Request, ToolContext
from noetl_temporal.calls.task_log import LogTail, OutputSource, PrintedText, store_printed
from noetl_temporal.mirror.prune import ShorterThanRetentionError, UnknownNamespaceError, remove
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.rebuild import rebuild
from noetl_temporal.mirror.server_needs import BlockingRun, ServerNeeds, find_server_needs
from noetl_temporal.mirror.service import mirroring
from noetl_temporal.mirror.sql import query
from noetl_temporal.mirror.store import open_store
from noetl_temporal.naming import PLAYBOOK_WORKFLOW
from noetl_temporal.payloads.payload_store import PayloadStore
from noetl_temporal.runs import RunHandle
from noetl_temporal.stack.addresses import Addresses
from tests.audit import audit_execution
from tests.mirror import scripted
from tests.mirror.conftest import Log, scripted_worker
from tests.mirror.pruning import LARGE, Place, make_namespace, place, until
from tests.mirror.resets import reset

ONE_STEP = '  - step: start\n    tool: {kind: noop, message: "{{ workload.text }}"}\n'
TWO = """
  - step: start
    tool: {kind: noop, message: "{{ workload.text }}"}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop, message: "{{ start | length }}"}}
"""
LOOPED_STEP = """
  - step: start
    loop: {in: "{{ [workload.text] }}", iterator: item}
    tool: {kind: noop, message: "{{ item }}"}
"""
WAITS = "  - step: start\n    tool: {kind: noop, message: wait}\n"
FRAMED_STEP = """
  - step: many
    loop: {in: "{{ range(60) | list }}", iterator: item, spec: {frame: {}}}
    tool: {kind: noop, message: "{{ item }}"}
"""


class Tool:
    """Answers with 100 KB that the message decides; to ``wait`` not before it is let go."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()

    async def __call__(self, request: Request, context: ToolContext) -> Any:
        del context
        message = request.config["message"]
        if message == "wait":
            await self.let_go.wait()
        return message if isinstance(message, int) else message * LARGE


@pytest.fixture(scope="module")
async def namespace(servers: Addresses) -> str:
    return await _namespace(servers)


async def _namespace(servers: Addresses) -> str:
    name = f"prune-{secrets.token_hex(4)}"
    await make_namespace(servers, name)
    return name


@pytest.fixture
def tool() -> Tool:
    return Tool()


@pytest.fixture
async def cluster(servers: Addresses, namespace: str, dsn: str, tool: Tool) -> AsyncGenerator[Place]:
    async with asyncio.timeout(120), place(servers, namespace, dsn, tool) as place_:
        yield place_


# ---- what goes -------------------------------------------------------------------------------------------------------


async def test_a_run_that_temporal_has_removed_loses_its_payloads_and_keeps_its_log(cluster: Place, log: Log) -> None:
    """Another has a loop there that the log does not know, and keeps them."""
    run, other = [await cluster.run(LOOPED_STEP, text=text) for text in "ab"]
    owned_keys, shared_keys = (
        await cluster.owned_keys(run),
        await cluster.owned_keys(run) & await cluster.owned_keys(other),
    )
    rows = await log.everything()
    await cluster.age(31)
    playbook, loop = await cluster.workflows_of(other)
    await log.database.execute("DELETE FROM noetl.cursor WHERE workflow_id = $1", loop)
    await cluster.expire(*await cluster.workflows_of(run), playbook)
    result = await cluster.prune(dry_run=True)
    assert (result.executions, result.payloads, result.retained) == (1, len(owned_keys - shared_keys), 1)
    assert result.bytes > LARGE
    assert await cluster.owned_keys(run) == owned_keys <= await cluster.keys()
    assert msgspec.structs.replace(await cluster.prune(), cutoff=result.cutoff) == result
    assert await cluster.keys() == await cluster.owned_keys(other) >= shared_keys
    assert (await cluster.prune()).payloads == 0
    assert await log.everything() == rows
    assert await audit_execution(cluster.dsn, run.execution_id) == []


async def test_a_rebuild_leaves_a_pruned_execution_as_it_is(cluster: Place, log: Log) -> None:
    old = await cluster.run(ONE_STEP, text="a")
    await cluster.age(31)
    await cluster.part(old)
    await cluster.prune()
    new = await cluster.run(ONE_STEP, text="b")
    await log.database.execute("UPDATE noetl.event SET status = 'marked'")
    rows = await log.rows(old.execution_id)
    rebuilt = await rebuild(cluster.dsn, cluster.client.temporal.data_converter)
    assert (rebuilt.rows, rebuilt.frozen) == (len(await log.everything()), 1)
    assert await log.rows(old.execution_id) == rows
    assert "marked" not in {status for _, status in await log.story(new.execution_id)}


async def test_a_shared_payload_is_removed_with_the_later_run(cluster: Place) -> None:
    old = await cluster.run(ONE_STEP, text="a")
    await cluster.age(31)
    new = await cluster.run(ONE_STEP, text="b")
    shared_keys = await cluster.owned_keys(old) & await cluster.owned_keys(new)
    assert len(shared_keys) == 1  # the graph
    await cluster.part(old)
    assert (await cluster.prune()).executions == 1
    assert await cluster.keys() == await cluster.owned_keys(new) >= shared_keys
    await cluster.age(31)
    await cluster.part(new)
    await cluster.prune()
    assert await cluster.keys() == set()


async def test_the_segments_of_a_frame_belong_to_its_execution(cluster: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl_temporal.frames.segment_writer.SEGMENT_ENTRIES", 20)
    run = await cluster.run(FRAMED_STEP)
    assert await cluster.owned_keys(run) == await cluster.keys()
    segments = "SELECT count(*) FROM noetl.payload WHERE position('binary/zlib'::bytea in data) > 0"
    assert await cluster.database.fetchval(segments) > 1
    await cluster.age(31)
    await cluster.part(run)
    await cluster.prune()
    assert await cluster.keys() == set()


async def test_a_rerun_owns_the_values_that_it_reuses(cluster: Place) -> None:
    old = await cluster.run(TWO, text="a")
    large = await cluster.owned_keys(old)
    await cluster.age(31)
    second_run = await cluster.client.rerun(old.execution_id, "after")
    await cluster.part(old)
    await cluster.prune()  # what the new run uses is kept before the mirror knows of it
    await second_run.result()
    await cluster.follow(second_run)
    assert large & await cluster.owned_keys(second_run)
    await cluster.age(31)
    await cluster.prune()
    assert (await second_run.result()).result == LARGE
    third = await cluster.client.rerun(second_run.execution_id, "after")
    assert (await third.result()).result == LARGE
    await cluster.follow(third)
    assert await audit_execution(cluster.dsn, third.execution_id) == []


async def test_a_rebuild_finds_the_owners_again(cluster: Place) -> None:
    run = await cluster.run(FRAMED_STEP)
    owned_keys = await cluster.owned_keys(run)
    await cluster.database.execute("DELETE FROM noetl.payload_owner")
    await rebuild(cluster.dsn, cluster.client.temporal.data_converter)
    assert await cluster.owned_keys(run) == owned_keys != set()


# ---- what stays ------------------------------------------------------------------------------------------------------


async def test_a_run_that_temporal_still_has_keeps_its_payloads(cluster: Place) -> None:
    run = await cluster.run(ONE_STEP, text="a")
    await cluster.age(31)
    result = await cluster.prune()
    assert (result.executions, result.payloads, result.retained) == (0, 0, 1)
    assert await cluster.keys() == await cluster.owned_keys(run)


async def test_a_run_that_ended_lately_keeps_its_payloads(cluster: Place) -> None:
    run = await cluster.run(ONE_STEP, text="a")
    await cluster.age(29)
    await cluster.part(run)
    result = await cluster.prune()
    assert (result.executions, result.payloads, result.retained) == (0, 0, 0)
    assert await cluster.keys() == await cluster.owned_keys(run)


@pytest.mark.parametrize("is_cut", [False, True])
async def test_a_run_with_a_loop_that_is_not_read_keeps_its_payloads(cluster: Place, is_cut: bool) -> None:
    """Also where the loop's id does not begin with that of its playbook, because it was cut."""
    run = await cluster.run(ONE_STEP, text="a")
    await cluster.age(31)
    await cluster.part(run)
    namespace, id_ = cluster.client.temporal.namespace, "cut" if is_cut else f"gone/{run.workflow_id}/many/1"
    await cluster.database.execute(query("add_runs"), *([value] for value in (namespace, id_, "r1", "noetl.loop")))
    if is_cut:
        await cluster.database.execute(query("note_parent"), run.run_id, [namespace], [id_], ["r1"])
    assert (await cluster.prune()).executions == 0
    await cluster.database.execute("UPDATE noetl.cursor SET is_closed = true WHERE run_id = 'r1'")
    assert (await cluster.prune()).executions == 1


async def test_an_open_run_keeps_its_payloads(cluster: Place, tool: Tool) -> None:
    run = await cluster.start(WAITS)
    following = asyncio.create_task(cluster.follow(run))
    while not await cluster.owned_keys(run):
        await asyncio.sleep(0.05)
    await cluster.age(31)
    assert (await cluster.prune()).executions == 0
    assert await cluster.keys() == await cluster.owned_keys(run)
    tool.let_go.set()
    assert (await run.result()).status == "completed"
    await following


async def test_payloads_without_an_owner_are_removed_once_they_are_old(cluster: Place) -> None:
    """Never within a day, however short the limit."""
    store = PayloadStore(cluster.dsn)
    await store.store(StorageDriverStoreContext(), [Payload(data=b"a")])
    await cluster.age(0.9)
    assert (await cluster.prune(timedelta(hours=2))).payloads == 0
    await cluster.age(0.2)
    result = await cluster.prune(timedelta(hours=2))
    assert (result.payloads, result.executions) == (1, 0)
    assert await cluster.keys() == set()


async def test_payloads_of_a_schedule_are_kept(cluster: Place) -> None:
    start = ScheduleActionStartWorkflow("noetl.playbook", "x" * LARGE, id="later", task_queue="nobody")
    schedule = Schedule(start, ScheduleSpec(), state=ScheduleState(paused=True))
    handle = await cluster.client.temporal.create_schedule(secrets.token_hex(4), schedule)
    await cluster.age(31)
    assert len(await cluster.keys()) == 1
    await _until_listed(cluster, 1)
    assert (await cluster.prune()).payloads == 0
    await handle.delete()
    await _until_listed(cluster, 0)
    assert (await cluster.prune()).payloads == 1


async def _until_listed(cluster: Place, count: int) -> None:
    async def is_listed() -> bool:
        return len([schedule async for schedule in await cluster.client.temporal.list_schedules()]) == count

    await until(is_listed)


async def test_a_limit_below_the_retention_is_refused(cluster: Place) -> None:
    with pytest.raises(ShorterThanRetentionError) as failure:
        await cluster.prune(timedelta(minutes=59))
    assert failure.value.retention == timedelta(hours=1)


async def test_a_log_with_runs_of_a_namespace_that_cannot_be_asked_is_not_pruned(cluster: Place) -> None:
    await cluster.database.execute(query("add_runs"), *([value] for value in ("elsewhere", "w", "r", "noetl.playbook")))
    with pytest.raises(UnknownNamespaceError, match="elsewhere"):
        await cluster.prune()


# ---- what an old run may still need ----------------------------------------------------------------------------------


@pytest.fixture
async def alone(servers: Addresses, dsn: str, tool: Tool) -> AsyncGenerator[Place]:
    """A namespace of which the mirror has read all runs."""
    name = await _namespace(servers)
    async with asyncio.timeout(120), place(servers, name, dsn, tool) as place_:
        yield place_


async def _blocking(cluster: Place) -> str | None:
    """The run that blocks removal, for a limit at which all runs are old."""
    client = cluster.client.temporal
    blockers = (await find_server_needs(client, cluster.database, datetime.now(UTC) + timedelta(hours=1))).blocked_by
    return None if blockers is None else blockers.workflow_id


async def _until_it_blocks(cluster: Place, run: RunHandle) -> None:
    """Temporal lists a new run a moment later."""
    while await _blocking(cluster) != run.workflow_id:
        await asyncio.sleep(0.05)


async def test_an_old_run_blocks_removal_while_it_is_not_read_or_has_calls(alone: Place, tool: Tool) -> None:
    assert await _blocking(alone) is None
    run = await alone.start(WAITS)
    await _until_it_blocks(alone, run)  # unknown
    following = asyncio.create_task(alone.follow(run))
    while not await alone.owned_keys(run):
        await asyncio.sleep(0.05)
    assert await _blocking(alone) == run.workflow_id  # its call is under way
    tool.let_go.set()
    await following
    assert await _blocking(alone) is None


async def test_the_run_of_a_reset_that_is_not_read_blocks_removal_since_its_base_began(
    alone: Place, tool: Tool
) -> None:
    """The history that a reset copied refers to values stored before the reset."""
    client = alone.client.temporal
    tool.let_go.set()
    run = await alone.run(WAITS)
    started_at = (await run.workflow.describe()).start_time
    second_run = client.get_workflow_handle(
        run.workflow_id, run_id=await reset(client, run.workflow, run.run_id or "", 0)
    )
    later = (await second_run.describe()).start_time
    assert later > started_at
    history = await second_run.fetch_history()
    async with open_store(alone.dsn, client.data_converter) as store:
        name = WorkflowRun(client.namespace, run.workflow_id, second_run.run_id or "", PLAYBOOK_WORKFLOW)
        await store.ingest(name, history.events[:1])
    for cutoff in (datetime.now(UTC) + timedelta(hours=1), later):
        async with asyncio.timeout(20):
            while (blocked_by := (await find_server_needs(client, alone.database, cutoff)).blocked_by) is None:
                await asyncio.sleep(0.05)  # Temporal lists a new run a moment later
        assert abs(blocked_by.since + timedelta(days=1) - started_at) < timedelta(milliseconds=1)


@pytest.mark.parametrize("dry_run", [True, False])
async def test_payloads_stored_since_a_blocking_run_began_are_kept(dsn: str, log: Log, dry_run: bool) -> None:
    now = datetime.now(UTC)
    for days in (40, 34, 30):
        await PayloadStore(dsn).store(StorageDriverStoreContext(), [Payload(data=str(days).encode())])
        await log.database.execute(
            "UPDATE noetl.payload SET used_at = $1 WHERE used_at > $2",
            now - timedelta(days=days),
            now - timedelta(days=1),
        )
    for started_at, payloads in ((45, 0), (35, 1), (2, 2)):
        run = BlockingRun(now - timedelta(days=started_at), "tests/old", "r1")
        async with _undone(log.database):
            result = await remove(
                log.database, now - timedelta(days=33), set(), ServerNeeds(set(), set(), run), dry_run=dry_run
            )
        assert (result.payloads, result.blocked_by) == (payloads, run if started_at > 33 else None)


@asynccontextmanager
async def _undone(database: asyncpg.Connection) -> AsyncGenerator[None]:
    transaction = database.transaction()
    await transaction.start()
    yield
    await transaction.rollback()


async def test_an_old_run_that_only_waits_blocks_nothing(alone: Place, execution_id: int) -> None:
    client = alone.client.temporal
    async with scripted_worker(client, "prune-scripted"):
        run_input = scripted.playbook(execution_id, {"do": "sleep", "seconds": 600})
        id_ = f"waits/{execution_id}"
        handle = await client.start_workflow("noetl.playbook", run_input, id=id_, task_queue="prune-scripted")
        async with mirroring(client, alone.dsn):
            await until(lambda: _holds_nothing(alone))
        assert (await handle.describe()).close_time is None
        await handle.terminate()


async def _holds_nothing(alone: Place) -> bool:
    return await _blocking(alone) is None


async def test_old_lines_of_tasks_are_removed(cluster: Place) -> None:
    task_place = OutputSource(7, "start", "start_task", None, None, 1, "w")
    await store_printed(cluster.dsn, task_place, [PrintedText(datetime.now(UTC), "stdout", "old\n")])
    await cluster.database.execute("UPDATE noetl.log SET stored_at = stored_at - interval '40 days'")
    await store_printed(cluster.dsn, task_place, [PrintedText(datetime.now(UTC), "stdout", "new\n")])
    assert (await cluster.prune(dry_run=True)).log_rows == 1
    assert (await cluster.prune()).log_rows == 1
    assert [line.text for line in await LogTail(7).read(cluster.database)] == ["new"]
