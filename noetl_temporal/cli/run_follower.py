"""Follows a run from its submission to its end, and stops it on request.

Stopping has three stages: cancel the run and wait for its cleanup (the tasks of ``end``), skip the cleanup, and leave
without waiting. Each Ctrl-C starts the next stage. After --timeout a stage starts when the one before has taken too
long, and the last one terminates the run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from typing import Any

import msgspec
from temporalio.service import RPCError

from noetl_compiler.graph import Graph
from noetl_compiler.language.defaults import CLEANUP_SECONDS
from noetl_temporal.calls.task_log import LogTail
from noetl_temporal.cli.called_waits import read_called_waits
from noetl_temporal.cli.describe_run import describe_run
from noetl_temporal.cli.event_log import EventLog
from noetl_temporal.cli.interrupts import Interrupts
from noetl_temporal.cli.log_summary import mirror_problems, wait_until_complete
from noetl_temporal.cli.open_waits import WaitLines
from noetl_temporal.cli.run_problems import read_run_problems
from noetl_temporal.cli.run_report import RunSummary
from noetl_temporal.cli.suspensions import SuspensionLines
from noetl_temporal.cli.view import View
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.mirror.announcements import announce
from noetl_temporal.mirror.poll_interval import PollInterval
from noetl_temporal.mirror.raw import WorkflowRun
from noetl_temporal.mirror.read import EventTail
from noetl_temporal.naming import PLAYBOOK_WORKFLOW
from noetl_temporal.runs import RunHandle, RunOverError, Runs

__all__ = ["RunFollower"]

SETTLE_SECONDS = 15.0
"""How long to wait for a run to stop after its cleanup, and for the event log to have its last rows."""

CANCEL_SECONDS = 2.0
"""How long to wait for cancel requests to reach Temporal before leaving, since three Ctrl-C may come at once."""

CHECK_SECONDS = 2.0
"""The interval between checks for problems that block the run."""


class RunFollower:
    """Follows one run.

    ``timeout`` is in seconds. If ``interrupts`` has counted signals already, the run is stopped immediately. With
    ``shows_output``, what the tasks print is shown.
    """

    def __init__(
        self,
        runs: Runs,
        handle: RunHandle,
        log: EventLog | None,
        view: View,
        graph: Graph,
        timeout: float | None,
        interrupts: Interrupts,
        *,
        shows_output: bool = False,
    ) -> None:
        self._runs, self._handle, self._log, self._view = runs, handle, log, view
        self._interval = PollInterval()
        self._graph, self._timeout, self._interrupts = graph, timeout, interrupts
        self._waits, self._problem_lines, self._called_wait_lines = (
            WaitLines(handle.execution_id),
            list[str](),
            list[str](),
        )
        self._suspensions = SuspensionLines(handle.execution_id)
        self._stop_reason = "noetl run was stopped"
        self._stop_count = 0
        self._output = LogTail(handle.execution_id) if shows_output else None
        self._leave_request = asyncio.Event()
        self._stop_tasks: list[asyncio.Task[None]] = []

    @property
    def execution_id(self) -> int:
        """The execution id of the run."""
        return self._handle.execution_id

    async def follow(self, ui_url: str | None) -> tuple[RunSummary, bool]:
        """Show the progress until the run has ended, or until the third Ctrl-C, after which its status is unknown.

        Returns the summary of the run, and whether it was interrupted.
        """
        show_task, watch_task = asyncio.create_task(self._show()), asyncio.create_task(self._watch())
        for _ in range(self._interrupts.count):
            self._interrupt()
        try:
            with self._interrupts.handle_with(self._interrupt):
                await self._wait()
                if not self._leave_request.is_set():
                    await self._wait_for_last_rows(show_task)
            if self._stop_tasks:
                await asyncio.wait(self._stop_tasks, timeout=CANCEL_SECONDS)
        finally:
            for task in (show_task, watch_task, *self._stop_tasks):
                task.cancel()
        summary = await describe_run(self._runs, self._handle, self._log, ui_url)
        if summary.status in ("running", "paused"):
            summary = msgspec.structs.replace(summary, status="unknown", reason="left while the run was running")
        return summary, self._interrupts.count > 0

    async def _wait_for_last_rows(self, show_task: asyncio.Task[None]) -> None:
        """Wait until the event log has the last rows of the run."""
        if self._log is None:
            return
        with contextlib.suppress(TimeoutError, RPCError):
            async with asyncio.timeout(SETTLE_SECONDS):
                if await wait_until_complete(self._log, self._runs.temporal.namespace, self._handle):
                    self._interval.reset()
                    await asyncio.wait([show_task])

    # ---- stopping ---------------------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Wait until the run has ended or the user leaves it; cancel it after its timeout."""
        end_task, leave_task = (
            asyncio.ensure_future(self._handle.result()),
            asyncio.ensure_future(self._leave_request.wait()),
        )
        try:
            if not await self._ends_within(end_task, leave_task, self._timeout) and not self._interrupts.count:
                self._view.show_message(f"timed out after {self._timeout:g} s")
                self._stop_reason = f"timed out after {self._timeout:g} s (--timeout)"
                await self._stop_step_by_step(end_task, leave_task)
            await asyncio.wait([end_task, leave_task], return_when=asyncio.FIRST_COMPLETED)
            if end_task.done():
                end_task.result()
        finally:
            end_task.cancel()
            leave_task.cancel()

    async def _stop_step_by_step(self, end_task: asyncio.Future[Any], leave_task: asyncio.Future[Any]) -> None:
        await self._stop()
        if await self._ends_within(end_task, leave_task, self._cleanup_seconds() + SETTLE_SECONDS):
            return
        await self._stop()
        if not await self._ends_within(end_task, leave_task, SETTLE_SECONDS):
            self._view.show_message("the run does not stop: terminating it")
            with _already_ended():
                await self._handle.terminate("did not stop after its timeout")

    @staticmethod
    async def _ends_within(
        end_task: asyncio.Future[Any], leave_task: asyncio.Future[Any], seconds: float | None
    ) -> bool:
        done, _ = await asyncio.wait([end_task, leave_task], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)

    def _cleanup_seconds(self) -> float:
        timeout = self._graph.steps[self._graph.final].timeout
        total = None if timeout is None else timeout.total
        return float(total) if isinstance(total, int | float) else CLEANUP_SECONDS

    def _interrupt(self) -> None:
        self._stop_tasks.append(asyncio.create_task(self._stop()))

    async def _stop(self) -> None:
        """Start the next stage: cancel, skip the cleanup, leave."""
        self._stop_count += 1
        with _already_ended():
            if self._stop_count == 1:
                hint = " (Ctrl-C again to skip it)" if self._interrupts.count else ""
                self._view.show_message(f"cancelling; waiting for the cleanup of step {self._graph.final}{hint}")
                await self._handle.cancel(self._stop_reason)
            elif self._stop_count == 2:
                hint = " (Ctrl-C again to leave without waiting)" if self._interrupts.count else ""
                self._view.show_message(f"skipping the cleanup{hint}")
                await self._handle.cancel(f"{self._stop_reason}, skipping the cleanup")
            else:
                self._view.show_message(
                    f"leaving; to end the run immediately: noetl terminate {self._handle.execution_id}"
                )
                self._leave_request.set()

    # ---- showing ----------------------------------------------------------------------------------------------------

    async def _show(self) -> None:
        """Show the progress of the run. If the log cannot be read, the run continues without it."""
        if self._log is None:
            return
        with contextlib.suppress(DeploymentError):
            await self._announce_run(self._log)
            tail = EventTail(self._handle.execution_id)
            while not tail.has_ended:
                has_output = await self._show_output(self._log)
                async with self._log.connection() as log:
                    rows = await tail.read(log)
                for row in rows:
                    self._view.feed(row)
                    self._waits.feed(row)
                    self._suspensions.feed(row)
                if rows:
                    self._warn()
                if not tail.has_ended:
                    await self._interval.wait(found_rows=has_output or bool(rows))
            await self._show_output(self._log)

    async def _show_output(self, log: EventLog) -> bool:
        """Show what the tasks have printed since the last call, if requested; return whether they printed anything."""
        has_lines = False
        while self._output is not None:
            async with log.connection() as connection:
                lines = await self._output.read(connection)
            if not lines:
                break
            has_lines = True
            for line in lines:
                self._view.print_line(line.text_with_source())
        return has_lines

    async def _announce_run(self, log: EventLog) -> None:
        """Announce the run to the mirrors, so that they read it immediately."""
        workflow, run_id = self._handle.workflow, self._handle.run_id
        if run_id is not None:
            async with log.connection() as connection:
                run = WorkflowRun(self._runs.temporal.namespace, workflow.id, run_id, PLAYBOOK_WORKFLOW)
                await announce(connection, run)

    async def _watch(self) -> None:
        """Check regularly what blocks the run, and what the runs that it has called wait for. Never returns."""
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            with contextlib.suppress(RPCError):
                problems = await read_run_problems(
                    self._runs.temporal, self._handle.workflow_id, self._handle.execution_id
                )
                if self._log is not None:
                    problems += await mirror_problems(
                        self._log, self._runs.temporal.namespace, self._handle.workflow_id
                    )
                self._problem_lines = [problem.line() for problem in problems]
                called_waits = await read_called_waits(self._log, self._runs, self._handle.execution_id)
                self._called_wait_lines = list(called_waits.lines())
                self._warn()

    def _warn(self) -> None:
        """Show what blocks the run, and what it waits for."""
        self._view.warn(
            [*self._problem_lines, *self._suspensions.lines(), *self._waits.lines(), *self._called_wait_lines]
        )


@contextlib.contextmanager
def _already_ended() -> Generator[None]:
    """Ignore the error of a request to a run that has ended meanwhile."""
    with contextlib.suppress(RunOverError):
        yield
