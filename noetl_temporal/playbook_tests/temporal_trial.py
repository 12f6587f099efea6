"""Runs tests on Temporal: a real worker runs the workflows on a test server, with activities that return stubs.

The expectations are those of a test in memory, so a difference between the in-memory host and Temporal is a failure.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
from temporalio.client import Client, WorkflowHandle
from temporalio.service import RPCError

from noetl_compiler.graph import Graph
from noetl_compiler.language.tool_description import Tools
from noetl_compiler.language.tools import PLAYBOOK
from noetl_compiler.playbook_tests import PlaybookTest, Request
from noetl_temporal.client import NoetlClient
from noetl_temporal.control.request_sending import RequestRefusedError, RunOverError, send_request
from noetl_temporal.event_ids import millisecond_of
from noetl_temporal.ids import new_execution_id
from noetl_temporal.machine.commands import Finish
from noetl_temporal.machine.waits.wait import Signal
from noetl_temporal.messages.control_requests import DecisionRequest, HeldRequest, PauseRequest, SignalRequest
from noetl_temporal.naming import (
    DECIDE_UPDATE,
    PAUSE_UPDATE,
    RESUME_UPDATE,
    RETRY_UPDATE,
    SIGNAL_UPDATE,
    SKIP_UPDATE,
    WORKFLOW_QUEUE,
)
from noetl_temporal.payloads.codec import data_converter, header_behavior
from noetl_temporal.playbook_tests.clocks import Clocks, TimeSkippingInterceptor, WorkflowClock
from noetl_temporal.playbook_tests.expectations import TrialProblem
from noetl_temporal.playbook_tests.host import TrialRun
from noetl_temporal.playbook_tests.requests import DueRequest, Requests, Situation, name_of_held
from noetl_temporal.playbook_tests.stubbed_worker import StubbedRun, StubbedRuns, stubbed_worker
from noetl_temporal.playbook_tests.stubs import StubbedWorld
from noetl_temporal.playbook_tests.timers import delays_of_timers
from noetl_temporal.playbook_tests.trial import TrialResult, missing_stub_problem, problems_of, stuck_run_problems
from noetl_temporal.runs import RunHandle

__all__ = ["memory_only_reason", "run_on_temporal"]

MAX_CONCURRENT_TESTS = 8

POLL_SECONDS = 0.02

STILL_SECONDS = 5.0
"""The time without progress after which a run counts as stuck."""


def memory_only_reason(graph: Graph) -> str | None:
    """Return why tests of the playbook run in memory only; None if they run on Temporal as well."""
    if any(task.kind == PLAYBOOK for step in graph.steps.values() for task in step.tasks):
        return "it calls playbooks, which stubs replace in memory only"
    return None


async def run_on_temporal(address: str, tests: Iterable[tuple[PlaybookTest, Graph]], tools: Tools) -> list[TrialResult]:
    """Return the results of tests, each with its graph, in their order."""
    converter = data_converter(None)
    client = await Client.connect(address, data_converter=converter, header_codec_behavior=header_behavior(converter))
    runs: StubbedRuns = {}
    slots = asyncio.Semaphore(MAX_CONCURRENT_TESTS)

    async def run_one(test: PlaybookTest, graph: Graph) -> TrialResult:
        async with slots:
            return await _Trial(client, runs, test, _without_frames(graph), tools).run()

    async with stubbed_worker(client, runs, tools):
        return list(await asyncio.gather(*(run_one(*pair) for pair in tests)))


def _without_frames(graph: Graph) -> Graph:
    """Return the graph without frames, which need a payload store."""
    steps = {
        name: msgspec.structs.replace(step, loop=msgspec.structs.replace(step.loop, frame=None))
        if step.loop is not None and step.loop.frame is not None
        else step
        for name, step in graph.steps.items()
    }
    return msgspec.structs.replace(graph, steps=steps)


class _Trial:
    """One test."""

    def __init__(self, client: Client, runs: StubbedRuns, test: PlaybookTest, graph: Graph, tools: Tools) -> None:
        self._test = test
        self._graph = graph
        self._requests = Requests(list(test.requests))
        self._stubbed_run = StubbedRun(StubbedWorld(test.stubs, tools, self._requests), TrialRun())
        self._execution_id = new_execution_id()
        runs[self._execution_id] = self._stubbed_run
        config = client.config()
        config["interceptors"] = [*config["interceptors"], TimeSkippingInterceptor(skips_waits=not test.requests)]
        self._client = Client(**config)
        self._tools = tools
        self._start_seconds = millisecond_of(self._execution_id) / 1000
        self._stuck_situation: Situation | None = None

    async def run(self) -> TrialResult:
        """Run the test, and compare the outcome."""
        start_time = time.perf_counter()
        client = NoetlClient(self._client, None, self._tools)
        queues = dict.fromkeys(self._tools, WORKFLOW_QUEUE)
        handle = await client.submit(self._graph, self._test.payload, queues=queues, execution_id=self._execution_id)
        problems = await self._follow(handle)
        run = self._stubbed_run.run
        all_problems = problems or problems_of(self._test, self._graph, self._stubbed_run.world, run)
        sorted_problems = tuple(sorted(all_problems, key=lambda problem: problem.span))
        return TrialResult(self._test, time.perf_counter() - start_time, sorted_problems, run)

    async def _follow(self, handle: RunHandle) -> list[TrialProblem]:
        """Run the test to its end; return the problems that prevented that."""
        sending = asyncio.create_task(self._send_requests(handle))
        result_task = asyncio.create_task(handle.result())
        try:
            while not result_task.done():
                await asyncio.wait([result_task], timeout=POLL_SECONDS)
                if self._stubbed_run.missing_stub is not None or self._stuck_situation is not None:
                    break
                if sending.done():
                    sending.result()
            if self._stubbed_run.missing_stub is not None:
                return [
                    missing_stub_problem(
                        self._test.span, self._graph, self._stubbed_run.missing_stub, self._stubbed_run.run
                    )
                ]
            if self._stuck_situation is not None:
                return stuck_run_problems(self._test, self._graph, self._stubbed_run.world, self._stuck_situation)
            await self._read_outcome(handle, result_task.result())
            return []
        finally:
            for task in (sending, result_task):
                task.cancel()
            await asyncio.gather(sending, result_task, return_exceptions=True)
            with suppress(RunOverError):
                await handle.terminate("the test has ended")

    async def _read_outcome(self, handle: RunHandle, report: Any) -> None:
        """Complete the TrialRun with the outcome of the run, as the in-memory host would."""
        run = self._stubbed_run.run
        state: dict[str, Any] = await handle.workflow.query("state")
        run.finish = Finish(report.status, report.result, report.failures, report.steps)
        records: dict[str, Any] = state.get("records", {})
        run.results = {step: record["outcome"].get("result") for step, record in records.items()}
        signal_queues: Mapping[str, list[Any]] = state.get("queued_signals", {})
        run.unused_signals = [msgspec.convert(signal, Signal) for queue in signal_queues.values() for signal in queue]
        timers = await delays_of_timers(self._client, handle.workflow_id)
        run.delays = [
            seconds for _, seconds in sorted([*self._stubbed_run.delays, *timers], key=lambda timed: timed[0])
        ]

    # ---- requests and clocks ----------------------------------------------------------------------------------------

    async def _send_requests(self, handle: RunHandle) -> None:
        """Send each request when it is due; move the clocks until the run ends."""
        for initial in self._requests.initial_requests():
            await self._send(handle, initial)
        self._requests.release_calls()
        clocks = Clocks(self._client, handle.workflow_id)
        while self._requests.pending and (clocks_read := await clocks.read()):
            situation = await self._situation(handle, clocks_read) if self._is_settled(clocks_read) else None
            if situation is None:
                await asyncio.sleep(POLL_SECONDS)
            elif (due := self._requests.next_due(situation)) is not None:
                await self._send(handle, due)
                await self._wait_for_pause(due.request, clocks_read)
                self._requests.release_calls()
            elif await clocks.advance(clocks_read, self._next_due_time()):
                await self._wait_for_progress(clocks, clocks_read)
            elif not await self._wait_for_progress(clocks, clocks_read):
                self._stuck_situation = situation
                return
        if self._test.requests:
            await clocks.skip_all_waits()
        await self._wait_until_still(handle, clocks)

    async def _wait_for_progress(self, clocks: Clocks, before: list[WorkflowClock]) -> bool:
        """Wait a while; return whether there was progress. Timers fire some time after the clock has moved."""
        marker, deadline = self._progress_marker(before), time.monotonic() + STILL_SECONDS
        while time.monotonic() < deadline:
            clocks_read = await clocks.read()
            due_time = self._next_due_time()
            is_reached = due_time is not None and bool(clocks_read) and _time_of(clocks_read) >= due_time
            if self._progress_marker(clocks_read) != marker or is_reached:
                return True
            await asyncio.sleep(POLL_SECONDS)
        return False

    async def _wait_until_still(self, handle: RunHandle, clocks: Clocks) -> None:
        """Wait until the run has ended or cannot continue."""
        while clocks_read := await clocks.read():
            has_progressed = await self._wait_for_progress(clocks, clocks_read)
            if not has_progressed and self._is_settled(clocks_read):
                self._stuck_situation = await self._situation(handle, clocks_read)
                return

    def _progress_marker(self, clocks: list[WorkflowClock]) -> tuple[Any, ...]:
        """Return a value that changes whenever the run makes progress."""
        return self._stubbed_run.deliveries, [(clock.handle.id, clock.events) for clock in clocks]

    def _is_settled(self, clocks: list[WorkflowClock]) -> bool:
        """Whether the run makes no progress until a request is sent."""
        running = sum(clock.running for clock in clocks)
        return not any(clock.has_workflow_task for clock in clocks) and running == self._requests.delayed_calls

    def _next_due_time(self) -> datetime | None:
        due_times = self._requests.due_times()
        return datetime.fromtimestamp(self._start_seconds + due_times[0], UTC) if due_times else None

    async def _situation(self, handle: RunHandle, clocks: list[WorkflowClock]) -> Situation | None:
        """Return the situation of the run; None if it has ended."""
        try:
            open_waits = await handle.suspensions(timedelta(seconds=10))
        except RunOverError:
            return None
        started = frozenset(event.node for event in self._stubbed_run.run.events if event.type == "step.started")
        seconds = _time_of(clocks).timestamp() - self._start_seconds
        return Situation(open_waits, started, any(clock.calls for clock in clocks), seconds)

    async def _send(self, handle: RunHandle, due: DueRequest) -> None:
        try:
            if due.request.do == "cancel":
                await handle.cancel(due.request.reason)
                return
            update, request = _update_of(due)
            await send_request(
                self._client.get_workflow_handle(handle.workflow_id), update, request, self._client.namespace
            )
        except RequestRefusedError as error:
            self._requests.add_refusal(due.request, str(error))

    async def _wait_for_pause(self, request: Request, clocks: list[WorkflowClock]) -> None:
        """Wait until the loops of the run have received its pause."""
        if request.do not in ("pause", "resume"):
            return
        deadline = time.monotonic() + STILL_SECONDS
        for clock in clocks[1:]:
            while time.monotonic() < deadline:
                if await _is_paused(clock.handle) is not (request.do == "resume"):
                    break
                await asyncio.sleep(POLL_SECONDS)


def _time_of(clocks: list[WorkflowClock]) -> datetime:
    """Return the time of the slowest clock. The clock of a workflow that waits for its loops stands still."""
    return min((clock.now for clock in clocks if not clock.children), default=clocks[0].now)


async def _is_paused(handle: WorkflowHandle[Any, Any]) -> bool | None:
    """Whether the workflow is paused; None for a loop that has ended."""
    try:
        if (await handle.describe()).close_time is not None:
            return None
        return cast("dict[str, Any]", await handle.query("state")).get("pause") is not None
    except RPCError:
        return None


def _update_of(due: DueRequest) -> tuple[str, SignalRequest | DecisionRequest | PauseRequest | HeldRequest]:
    _, request, target = due
    id_ = new_execution_id()
    match request.do:
        case "signal":
            name = request.name.text if request.name else ""
            return SIGNAL_UPDATE, SignalRequest(id_, Signal(name, request.data, request.key))
        case "approve" | "reject":
            form = request.form or {}
            decision = DecisionRequest(id_, target, request.do == "approve", request.by, request.reason, form)
            return DECIDE_UPDATE, decision
        case "pause" | "resume":
            update = PAUSE_UPDATE if request.do == "pause" else RESUME_UPDATE
            return update, PauseRequest(id_, request.by, request.reason)
        case _:
            update = RETRY_UPDATE if request.do == "retry" else SKIP_UPDATE
            return update, HeldRequest(id_, name_of_held(due), request.data, request.by, request.reason)
