"""Records the histories of tests/replay anew, each on a real Temporal: one for each feature and each stop.

    python -m dev.histories [NAME...]

By default all of them. Until the first release they are recorded anew when formats change; after it, a recorded file
is a promise that open workflows continue. Needs the embedded stack's wheels.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from itertools import groupby
from pathlib import Path

import asyncpg
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory

from dev.histories.everything import RECORDINGS
from dev.histories.files import remove, write
from dev.histories.limits import limited
from dev.histories.recording import Recording, playbook_text
from dev.histories.session import KINDS, Session, running
from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
from noetl_temporal.worker import workflow_worker

AT_ONCE = 6
RUN_SECONDS = 90.0


class NotShownError(AssertionError):
    """A run does not have the events that it was recorded for."""


async def record(addresses: Addresses, names: list[str]) -> list[str]:
    """Record these; return a line about each that could not be recorded."""
    await _make_table(addresses.playbooks)
    login = addresses.environment()["NOETL_CREDENTIAL_PG_LOCAL"]
    source = CredentialSource(environment={"NOETL_CREDENTIAL_PG": login})
    tools = {kind: FakeTool(kind, lambda _request, _context: None) for kind in KINDS}
    client = await NoetlClient.connect(addresses.temporal, tools=tools)
    problems: list[str] = []
    for batch in _batches(names):
        with limited(RECORDINGS[batch[0]].limits):
            async with _workflows(client, not RECORDINGS[batch[0]].early):
                slots = asyncio.Semaphore(1 if RECORDINGS[batch[0]].alone else AT_ONCE)
                histories = await asyncio.gather(*(_record(client, source, name, slots) for name in batch))
        problems += [line for line in histories if line]
    return problems


def _batches(names: list[str]) -> Iterator[list[str]]:
    """Yield groups that can be recorded concurrently, as limits apply to the whole process."""

    def process_settings(name: str) -> tuple[bool, bool, str]:
        return RECORDINGS[name].early, RECORDINGS[name].alone, repr(RECORDINGS[name].limits)

    for _, group in groupby(sorted(names, key=process_settings), process_settings):
        yield list(group)


def _workflows(client: NoetlClient, is_started: bool) -> AbstractAsyncContextManager[object]:
    return workflow_worker(client.temporal) if is_started else nullcontext()


async def _record(client: NoetlClient, source: CredentialSource, name: str, slots: asyncio.Semaphore) -> str:
    async with slots:
        start = time.monotonic()
        try:
            histories = await asyncio.wait_for(_histories(client, source, name, RECORDINGS[name]), RUN_SECONDS)
        except Exception as error:
            return f"{name}: {type(error).__name__}: {error}"
        remove(name)
        size = write(name, histories)
    print(f"{name}: {len(histories)} runs, {size:,} bytes, {time.monotonic() - start:.1f} s", flush=True)
    return ""


async def _histories(
    client: NoetlClient, source: CredentialSource, name: str, recording: Recording
) -> list[WorkflowHistory]:
    graph = compile_or_raise(playbook_text(recording), f"{name}.yaml")
    async with running(client, source, name, graph, scheduled=recording.scheduled) as session:
        if recording.script is not None:
            await recording.script(session)
        async with _workflows(client, recording.early):
            histories = await _fetch_histories(session)
            report = await (await client.handle(session.handle.workflow_id)).result()
    if report.status != recording.ends:
        raise NotShownError(f"has {report.status}, not {recording.ends}: {report.failures.cause}")
    event_types = [
        EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
        for history in histories
        for event in history.events
    ]
    if missing := set(recording.shows) - set(event_types):
        raise NotShownError(f"does not show {', '.join(sorted(missing))}")
    if recording.first and event_types.index(recording.first[0]) > event_types.index(recording.first[1]):
        raise NotShownError(f"has {recording.first[1]} before {recording.first[0]}")
    return histories


async def _fetch_histories(session: Session) -> list[WorkflowHistory]:
    """Wait for the end of the playbook and its loops, and return the histories of their runs in the order of start."""
    temporal = session.client.temporal
    await (await session.client.handle(session.handle.workflow_id)).result()
    query = f"NoetlExecutionId = {session.handle.execution_id}"
    while True:
        runs = [run async for run in temporal.list_workflows(query)]
        if runs and all(run.status != WorkflowExecutionStatus.RUNNING for run in runs):
            break
        await asyncio.sleep(0.05)
    runs.sort(key=lambda run: (run.start_time, run.id))
    return [await temporal.get_workflow_handle(run.id, run_id=run.run_id).fetch_history() for run in runs]


async def _make_table(dsn: str) -> None:
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute("CREATE TABLE t (n int)")
    finally:
        await connection.close()


def main() -> int:
    """Return the exit status: 1 if a recording failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECORDINGS))
    names: list[str] = parser.parse_args().names
    if unknown := sorted(set(names) - set(RECORDINGS)):
        parser.error(f"no recording {', '.join(unknown)}")
    if not names:
        remove("*")
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, owned_stack(Home(Path(folder)), "run") as (_, addresses):
        problems = asyncio.run(record(addresses, names or list(RECORDINGS)))
    for line in problems:
        print(f"NOT RECORDED: {line}")
    print(f"{len(names or RECORDINGS) - len(problems)} recorded in {time.monotonic() - start:.0f} s")
    return int(bool(problems))


if __name__ == "__main__":
    raise SystemExit(main())
