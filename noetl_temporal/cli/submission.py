"""Submits runs. Ctrl-C cannot lose one: a run that may have started is cancelled, or else reported."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from temporalio.service import RPCError, RPCStatusCode

from noetl_temporal.cli.interrupts import Interrupts
from noetl_temporal.deployment import DeploymentError
from noetl_temporal.runs import RunHandle

__all__ = ["UnansweredError", "submitted"]

ANSWER_SECONDS = 15.0
"""How long the answer of Temporal is waited for once the run is to be stopped."""

_UNKNOWN = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.DEADLINE_EXCEEDED, RPCStatusCode.CANCELLED)
"""Statuses after which the server may have performed the request."""


class UnansweredError(Exception):
    """It is unknown whether the run has started."""


async def submitted(
    submit: Callable[[int], Awaitable[RunHandle]],
    execution_id: int,
    interrupts: Interrupts,
    say: Callable[[str], None],
) -> RunHandle:
    """Submit a run under ``execution_id`` and return its handle.

    After a first signal it still waits for the response, so that the run can be cancelled; it gives up after a second
    signal or a timeout. Raises the errors of ``submit``, and UnansweredError if the run may have started anyway."""
    await asyncio.sleep(0)  # a signal that came before the handlers cancels here, before anything is submitted
    submitting, arrived = asyncio.ensure_future(submit(execution_id)), asyncio.Event()
    leaving = asyncio.create_task(_wait_until_given_up(arrived, say))
    try:
        with interrupts.handled(arrived.set):
            await asyncio.wait([submitting, leaving], return_when=asyncio.FIRST_COMPLETED)
        if not submitting.done():
            raise UnansweredError(f"stopped waiting for Temporal's response. {_advice(execution_id)}")
        return submitting.result()
    except (DeploymentError, RPCError) as error:
        answer = error.__cause__ if isinstance(error, DeploymentError) else error
        if isinstance(answer, RPCError) and answer.status in _UNKNOWN:
            raise UnansweredError(f"{error}. {_advice(execution_id)}") from error
        raise
    finally:
        leaving.cancel()
        submitting.cancel()


async def _wait_until_given_up(arrived: asyncio.Event, say: Callable[[str], None]) -> None:
    """Wait for a signal, which sets ``arrived``, then for the response until a second signal or ANSWER_SECONDS."""
    await arrived.wait()
    say("cancelling as soon as Temporal confirms that the run has started (Ctrl-C again to exit)")
    arrived.clear()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(arrived.wait(), ANSWER_SECONDS)


def _advice(execution_id: int) -> str:
    return f"The run may have started; to end it: noetl terminate {execution_id}"
