"""Whoever reaches Temporal can start a workflow that is named like ours, with any id and any input. The mirror notes
what it cannot read as a problem, and goes on for all others.
"""

from __future__ import annotations

import asyncio
import random
import string
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from temporalio.api.common.v1 import Payload
from temporalio.api.failure.v1 import Failure
from temporalio.common import RawValue

from noetl_temporal.ids import new_execution_id
from noetl_temporal.mirror.read import read_problems
from noetl_temporal.mirror.reconcile import reconcile
from noetl_temporal.mirror.server_needs import find_server_needs
from noetl_temporal.mirror.service import mirroring
from noetl_temporal.mirror.store import UNSTORABLE, Store, open_store
from tests.mirror.built import History, begin, payloads
from tests.mirror.built import playbook as built
from tests.mirror.conftest import Log, Scripts
from tests.mirror.scripted import call, playbook
from tests.mirror.story import Story

REPORT = {
    "report": {
        "outcome": {"status": "ok", "result": {"n": 1}},
        "attempts": [{"number": 1, "started": 0, "ended": 40, "status": "ok"}],
    }
}
RANDOM = "".join(random.Random(1).choices(string.ascii_letters, k=1_000_000))


def _input(**fields: object) -> bytes:
    return msgspec.json.encode(playbook(new_execution_id()) | fields)


def _nested_array(levels: int) -> bytes:
    return b"[" * levels + b"1" + b"]" * levels


def _path(path: str) -> dict[str, object]:
    graph = playbook(1)["graph"]
    return {"graph": {**graph, "source": {**graph["source"], "path": path}}}


UNREADABLE = {
    "no JSON": b"{",
    "no map": b"[1]",
    "nothing": b"{}",
    "no graph": b'{"graph": 3}',
    "a graph of texts": b'{"graph": {"source": "a"}, "execution_id": 3}',
    "an id beyond any": _input(execution_id=2**63),
    "an id that is a text": _input(execution_id="1; DROP TABLE noetl.event"),
    "a path beyond any index": _input(**_path(RANDOM)),
    "a number beyond any": _input(payload={"a": 0}).replace(b'"payload":{"a":0}', b'"payload":{"a":1e99999}'),
    "a nest beyond any": _input(payload={"a": 0}).replace(b'"payload":{"a":0}', b'"payload":' + _nested_array(100_000)),
}
READABLE = {
    "a nest": _input(payload={"a": 0}).replace(b'"a":0', b'"a":' + _nested_array(700)),
    "NUL everywhere": _input(**_path("a\0b"), payload={"\0": "\0"}, content="\0"),
    "halves of pairs": _input(payload={"a": 0}).replace(b'"a":0', rb'"\ud83d":"\ude00"'),
    "a long text": _input(content=RANDOM),
}


async def _start(scripts: Scripts, id_: str, data: bytes) -> str:
    """A workflow that nobody runs."""
    handle = await scripts.client.start_workflow(
        "noetl.playbook",
        RawValue(Payload(metadata={"encoding": b"json/plain"}, data=data)),
        id=id_,
        task_queue="nobody",
        execution_timeout=timedelta(seconds=120),
    )
    return str(handle.first_execution_run_id)


async def _eventually(check: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(60):
        while not await check():
            await asyncio.sleep(0.05)


async def test_no_input_of_a_run_stops_the_mirror_for_other_runs(
    scripts: Scripts, dsn: str, log: Log, execution_id: int
) -> None:
    unreadable = {await _start(scripts, f"hostile/{name}", data): name for name, data in UNREADABLE.items()}
    readable = {await _start(scripts, f"hostile/{name}", data): name for name, data in READABLE.items()}

    async def all_problems_reported() -> bool:
        run_ids = {problem.run_id for problem in await read_problems(log.database)}
        read = await log.database.fetch("SELECT run_id FROM noetl.cursor WHERE position > 0")
        return run_ids.issuperset(unreadable) and {row["run_id"] for row in read}.issuperset(readable)

    async with mirroring(scripts.client, dsn):
        await _eventually(all_problems_reported)
        await _is_mirrored(scripts, log, execution_id)
    assert not {problem.run_id for problem in await read_problems(log.database)} & readable.keys()


async def test_no_id_of_a_run_keeps_others_from_being_mirrored(
    scripts: Scripts, dsn: str, log: Log, execution_id: int, store: Store
) -> None:
    run_id = await _start(scripts, f"hostile/{execution_id}/a\0b", READABLE["a long text"])

    async def is_logged() -> bool:
        return UNSTORABLE in [
            problem.problem for problem in await read_problems(log.database) if problem.run_id == run_id
        ]

    for _ in range(2):  # also of a mirror that starts again
        async with mirroring(scripts.client, dsn):
            await _eventually(is_logged)
            await _is_mirrored(scripts, log, new_execution_id())
    await scripts.client.get_workflow_handle(f"hostile/{execution_id}/a\0b", run_id=run_id).terminate()
    await reconcile(scripts.client, store)
    await find_server_needs(scripts.client, log.database, datetime.now(UTC))


async def _is_mirrored(scripts: Scripts, log: Log, execution_id: int) -> None:
    """A valid run that begins afterwards is logged to its end."""
    await scripts.start(execution_id, call(execution_id, 1, REPORT))

    async def has_ended() -> bool:
        return "playbook.completed" in [type_ for type_, _ in await log.story(execution_id)]

    await _eventually(has_ended)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["ok", "error", "lost", "retry", "again"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _fields(*names: str, **strategies: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Maps with some of these fields, each any JSON; the ``known`` ones are maps more often than not."""
    fields = {name: inner | JSON for name, inner in strategies.items()}
    return st.fixed_dictionaries({}, optional={**dict.fromkeys(names, JSON), **fields})


ERRORS = _fields("kind", "message", "code", "traceback", "retryable")
SINKS = _fields("kind", "key", "status", "started", "ended", "rows", "table", "duplicate", "error", "warning")
RECORDS = _fields(
    "started",
    "status",
    "ended",
    "rule",
    "do",
    "delay",
    "exhausted",
    "indeterminate",
    "worker",
    number=st.integers(1, 5),
    error=ERRORS,
    sinks=st.lists(SINKS, max_size=2),
)
OUTCOMES = _fields("status", "result", "meta", error=ERRORS, py=_fields("traceback", "exception"))
REPORTS = _fields("rule", "exhausted", "stored", outcome=OUTCOMES, attempts=st.lists(RECORDS, max_size=3))


def _run_with(report: Any, end: str) -> History:
    """A run of one call that ends with this report: as its result, in the details of its failure or its heartbeat."""
    history = built(1)
    story = Story(history.now)
    begin(history, story)
    history.now += 100
    scheduled_id = len(history.events)
    if end == "COMPLETED":
        history.answers(scheduled_id, report)
    else:
        failure = Failure(message="m")
        details = report
        with suppress(TypeError, KeyError):
            details = {"records": report["attempts"]}
        failure.application_failure_info.details.CopyFrom(payloads(details))
        failure.application_failure_info.type = "ActivityPause"
        message = {"scheduled_event_id": scheduled_id, "started_event_id": history.start_activity(scheduled_id)}
        history.add("ACTIVITY_TASK_FAILED", failure=failure, **message)
    return history


async def _store_histories(dsn: str, histories: list[History]) -> list[int]:
    """How many rows of each are stored."""
    counts: list[int] = []
    async with open_store(dsn) as store:
        for history in histories:
            await store.pool.execute("TRUNCATE noetl.event, noetl.execution, noetl.cursor, noetl.history CASCADE")
            await store.ingest(history.run, history.events)
            counts.append(await store.pool.fetchval("SELECT count(*) FROM noetl.event"))
    return counts


@given(reports=st.lists(st.tuples(REPORTS, st.sampled_from(["COMPLETED", "FAILED"])), min_size=8, max_size=8))
@example(reports=[({"outcome": {"status": "error", "error": {}, "py": {"traceback": 5}}}, "COMPLETED")])
@example(reports=[({"outcome": {"status": "ok"}, "attempts": [{"number": 2**40}, {"number": 30_000}]}, "COMPLETED")])
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_report_of_a_call_keeps_its_run_from_being_mirrored(dsn: str, reports: list[tuple[Any, str]]) -> None:
    histories = [_run_with(*report) for report in reports]
    row_counts = asyncio.run(_store_histories(dsn, histories))
    assert row_counts == [len(history.rows()) for history in histories]
    assert all(6 < count < 100 for count in row_counts)
