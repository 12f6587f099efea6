"""Measures replays in history events per second, compared with a hand-written workflow (dev/decisions/0040).

It replays the histories of ``tests/replay``, and those of a loop of LONG items and of a sequence, each as a playbook
and written by hand (dev/bench/overhead.py), which an embedded stack records. The last column is the rate of the
playbook divided by that of the hand-written workflow.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any

from temporalio.client import Client, WorkflowHistory
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner, Worker

from dev.bench.overhead import CHUNK, HandChunk, HandSequence, hand_activity, loop, sequence
from dev.histories.everything import RECORDINGS
from dev.histories.files import FOLDER, recording_of
from dev.histories.limits import limited
from noetl_activities.credentials import CredentialSource
from noetl_activities.noop import TOOL
from noetl_compiler import compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.inspection.replay import histories_of, parse_history, replay
from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
from noetl_temporal.worker import serving

__all__ = ["replays"]

LONG = 2_000
STEPS = 200
IN_FLIGHT = 50
"""The number of concurrent calls in one chunk."""
MIN_EVENTS = 1_000
"""Shorter histories are not measured: most of their time is the start of the replay."""
ROUNDS = 5
BY_HAND = {LOOP_WORKFLOW: HandChunk, PLAYBOOK_WORKFLOW: HandSequence}
"""The hand-written workflow to compare each type of workflow with."""

Replay = Callable[[WorkflowHistory], Awaitable[object]]


def type_of(history: WorkflowHistory) -> str:
    return history.events[0].workflow_execution_started_event_attributes.workflow_type.name


def name_by_hand(kind: str) -> str | None:
    """Return the type of the hand-written workflow to compare with; None if this is hand-written."""
    return BY_HAND[kind].__name__ if kind in BY_HAND else None


# ---- histories -------------------------------------------------------------------------------------------------------


async def by_hand(client: Client) -> list[WorkflowHistory]:
    """A chunk and a sequence."""
    histories: list[WorkflowHistory] = []
    worker = Worker(
        client,
        task_queue="hand",
        workflows=[HandChunk, HandSequence],
        activities=[hand_activity],
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        for name, count in ((HandChunk.__name__, CHUNK), (HandSequence.__name__, STEPS)):
            args: list[Any] = [count, IN_FLIGHT]
            await client.execute_workflow(name, args=args, id=f"hand/{name}", task_queue="hand")
            histories += [history async for history in histories_of(client, f"hand/{name}")]
    return histories


async def record(address: str) -> list[WorkflowHistory]:
    """Record all runs of both sides. Hand-written workflows use Temporal's own converter."""
    noetl = await NoetlClient.connect(address, tools={"noop": TOOL})
    recorded_histories = await by_hand(await Client.connect(address))
    async with serving(noetl.temporal, {"noop": TOOL}, CredentialSource()):
        for text in (loop(LONG, 2 * IN_FLIGHT), sequence(STEPS)):
            handle = await noetl.submit(compile_or_raise(text))
            await handle.result()
            recorded_histories += [history async for history in histories_of(noetl.temporal, handle.workflow_id)]
    return recorded_histories


def long_histories(folder: Path | None) -> list[WorkflowHistory]:
    if folder is not None and (files := sorted(folder.glob("*.json"))):
        return [parse_history(file.read_text()) for file in files]
    with tempfile.TemporaryDirectory() as home, owned_stack(Home(Path(home)), "run") as (_, addresses):
        recorded_histories = asyncio.run(record(addresses.temporal))
    if folder is not None:
        for index, history in enumerate(recorded_histories):
            (folder / f"{index}.json").write_text(history.to_json())
    return recorded_histories


# ---- replays ---------------------------------------------------------------------------------------------------------


async def replay_ours(history: WorkflowHistory) -> None:
    verdict = await replay(history, data_converter())
    if verdict.problem is not None:
        raise SystemExit(f"{verdict.workflow_id}: {verdict.problem}")


async def replay_by_hand(history: WorkflowHistory) -> None:
    replayer = Replayer(workflows=[HandChunk, HandSequence], workflow_runner=UnsandboxedWorkflowRunner())
    await replayer.replay_workflow(history)


def seconds_of(run: Replay, histories: Iterable[WorkflowHistory]) -> float:
    """Return the processor seconds of all threads of this process."""

    async def all_of_them() -> float:
        start = time.process_time()
        for history in histories:
            await run(history)
        return time.process_time() - start

    return asyncio.run(all_of_them())


def rates(histories: list[WorkflowHistory]) -> list[float]:
    """Return the events per second of each history: the median of rounds in which all take turns."""
    rounds = [
        [
            len(history.events)
            / seconds_of(replay_ours if name_by_hand(type_of(history)) else replay_by_hand, [history])
            for history in histories
        ]
        for _ in range(ROUNDS)
    ]
    return [median(rates) for rates in zip(*rounds, strict=True)]


def replays(folder: Path | None) -> None:
    """Print the table; ``folder`` keeps what was recorded for it."""
    print(f"{'':34}{'events':>9}{'events/s':>12}{'to by hand':>12}")
    events, seconds = 0, 0.0
    for file in sorted(FOLDER.glob("*.json")):
        history = parse_history(file.read_text())
        with limited(RECORDINGS[recording_of(file)].limits):
            seconds += seconds_of(replay_ours, [history])
        events += len(history.events)
    print(f"{'tests/replay':34}{events:9,}{events / seconds:12,.0f}")
    histories = [record for record in long_histories(folder) if len(record.events) >= MIN_EVENTS]
    hand_rates = rates(histories)
    hand = {type_of(record): rate for record, rate in zip(histories, hand_rates, strict=True)}
    for history, rate in zip(histories, hand_rates, strict=True):
        name = name_by_hand(type_of(history))
        ratio = f"{rate / hand[name]:12.2f}" if name else ""
        print(f"{history.workflow_id[-30:]:34}{len(history.events):9,}{rate:12,.0f}{ratio}")
