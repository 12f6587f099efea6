"""The waits of the playbooks that a run has called, with the commands that answer them."""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace
from temporalio.service import RPCError

from noetl_temporal.cli.event_log import EventLog
from noetl_temporal.cli.open_waits import OpenWait, open_wait
from noetl_temporal.cli.suspensions import Suspension, reported_suspensions, suspension_lines
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.messages.control_requests import OpenWaits
from noetl_temporal.mirror.read import CalledRun, open_runs_below
from noetl_temporal.runs import RequestRefusedError, RunHandle, Runs, UnknownRunError

__all__ = ["CalledWaits", "query_open_waits", "read_called_waits"]

MAX_RUNS = 20
"""The maximum number of called runs that are queried."""

_QUERY_TIMEOUT = datetime.timedelta(seconds=5)
"""Timeout of the query. Without workers a run does not respond."""


class CalledWaits(NamedTuple):
    """The waits and suspensions of called runs, each with the path of its playbook and the command that answers it."""

    waits: list[OpenWait]
    suspensions: list[Suspension]

    def lines(self) -> Iterator[str]:
        """Yield a line for each, with its message and command."""
        yield from suspension_lines(self.suspensions)
        yield from (wait.line() for wait in self.waits)


async def read_called_waits(log: EventLog | None, runs: Runs, execution_id: int) -> CalledWaits:
    """Return the waits of the open runs that a run has called, directly or indirectly, as far as the log has them.

    Raises DeploymentError."""
    called_waits = CalledWaits([], [])
    for run in await _open_runs(log, execution_id):
        try:
            reported_waits = await query_open_waits(await runs.find(run.execution_id))
        except UnknownRunError:  # it has ended and was removed from Temporal meanwhile
            continue
        for wait in (open_wait(run.execution_id, wait) for wait in reported_waits.waits):
            called_waits.waits.append(replace(wait, name=f"{run.path}: {wait.name}"))
        held_steps = [step for step in reported_suspensions(run.execution_id, reported_waits) if step.run]
        called_waits.suspensions.extend(replace(step, name=f"{run.path}: {step.name}") for step in held_steps)
    return called_waits


async def _open_runs(log: EventLog | None, execution_id: int) -> list[CalledRun]:
    if log is not None:
        with contextlib.suppress(DeploymentError):
            async with log.connection() as connection:
                return await open_runs_below(connection, execution_id, MAX_RUNS)
    return []


async def query_open_waits(handle: RunHandle) -> OpenWaits:
    """Return what the run waits for; empty if no worker responds in time, or if the workflow is paused in Temporal."""
    try:
        return await handle.suspensions(_QUERY_TIMEOUT)
    except (RPCError, RequestRefusedError):
        return OpenWaits([])
