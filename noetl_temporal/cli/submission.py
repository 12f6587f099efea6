"""Submits runs. After Ctrl-C, a run that may have started is cancelled, or else reported."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.cli.interrupts import Interrupts
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.runs import RunHandle

__all__ = ["UnansweredError", "submit_run"]

RESPONSE_SECONDS = 15.0
"""How long to wait for Temporal's response after a signal."""

_UNKNOWN_OUTCOMES = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
"""Statuses after which the server may have performed the request."""


class UnansweredError(Exception):
    """It is unknown whether the run has started."""


async def submit_run(
    submit: Callable[[int], Awaitable[RunHandle]],
    execution_id: int,
    interrupts: Interrupts,
    say: Callable[[str], None],
) -> RunHandle:
    """Submit a run with ``execution_id`` and return its handle.

    After a signal it still waits for the response, so that the run can be cancelled, until a second signal or a
    timeout. Raises the errors of ``submit``, and UnansweredError if the run may have started.
    """
    await asyncio.sleep(0)  # a signal that came before the handlers cancels this task here, before the submission
    submit_task, interrupt = asyncio.ensure_future(submit(execution_id)), asyncio.Event()
    give_up_task = asyncio.create_task(_wait_until_given_up(interrupt, say))
    try:
        with interrupts.handle_with(interrupt.set):
            await asyncio.wait([submit_task, give_up_task], return_when=asyncio.FIRST_COMPLETED)
        if not submit_task.done():
            raise UnansweredError(f"stopped waiting for Temporal's response. {_terminate_hint(execution_id)}")
        return submit_task.result()
    except (DeploymentError, RPCError) as error:
        cause = error.__cause__ if isinstance(error, DeploymentError) else error
        if isinstance(cause, RPCError) and cause.status in _UNKNOWN_OUTCOMES:
            raise UnansweredError(f"{error}. {_terminate_hint(execution_id)}") from error
        raise
    finally:
        give_up_task.cancel()
        submit_task.cancel()


async def _wait_until_given_up(interrupt: asyncio.Event, say: Callable[[str], None]) -> None:
    """Wait for a signal, which sets ``interrupt``, and then for a second one, at most RESPONSE_SECONDS."""
    await interrupt.wait()
    say("cancelling as soon as Temporal confirms that the run has started (Ctrl-C again to exit)")
    interrupt.clear()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(interrupt.wait(), RESPONSE_SECONDS)


def _terminate_hint(execution_id: int) -> str:
    return f"The run may have started; to end it: noetl terminate {execution_id}"
