"""The reasons for which Temporal interrupts an activity, and how its attempt ends then (semantics.md 19a, 22a).

``cancelled``: the call was cancelled by a user, a timeout or a failed sibling. It is not retried. ``paused``,
``reset``: a user paused or reset the activity. ``shutdown``: its worker stopped and the grace period is over. In these
three cases the call is retried, and the attempt counts neither as failed nor as lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from datetime import timedelta
from typing import Any, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from noetl_temporal.machine.call import AttemptStatus

__all__ = [
    "FINISH_SECONDS",
    "MIN_DELAY",
    "interruption_error",
    "interruption_reason",
    "run_despite_pause",
    "wait_until_finished",
]

FINISH_SECONDS = 10.0
"""How long an interrupted attempt may take to store the outcome after its tool has returned."""

MIN_DELAY = timedelta(milliseconds=1)
"""The shortest delay that Temporal accepts: it treats zero as not set, and uses its own backoff."""

_ERRORS: Mapping[AttemptStatus, tuple[str, str]] = {
    "shutdown": ("worker_shutdown", "its worker stopped: the call is retried"),
    "paused": ("paused", "the activity was paused: the call is retried when it is unpaused"),
    "reset": ("reset", "the activity was reset: the call is retried"),
}
"""The type and the message of the error with which the attempt ends, by the reason of the interruption."""

T = TypeVar("T")


def interruption_error(reason: AttemptStatus) -> ApplicationError:
    """Return the error that ends an interrupted attempt, and makes Temporal retry the call at once."""
    kind, message = _ERRORS[reason]
    return ApplicationError(message, type=kind, next_retry_delay=MIN_DELAY, category=ApplicationErrorCategory.BENIGN)


def interruption_reason() -> AttemptStatus | None:
    """Return why the running activity is interrupted; None if Temporal gives no reason, as when the process exits."""
    details = activity.cancellation_details()
    if details is None:
        return None
    if details.cancel_requested or details.not_found or details.timed_out:
        return "cancelled"
    if details.paused:
        return "paused"
    if details.reset:
        return "reset"
    return "shutdown" if details.worker_shutdown else None


async def run_despite_pause(attempt: Coroutine[Any, Any, T], tool_called: asyncio.Event) -> T:
    """Run an attempt that must not be repeated: a pause does not interrupt it once ``tool_called`` is set.

    Temporal notifies an activity only once, so a cancel after the pause takes effect when the attempt has ended.
    """
    work = asyncio.create_task(attempt)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if interruption_reason() != "paused" or not tool_called.is_set():
            work.cancel()
        return await work


async def wait_until_finished(work: asyncio.Task[T]) -> T:
    """Wait for ``work`` and return its result. If the caller is cancelled, the work is cancelled FINISH_SECONDS later.

    Raises CancelledError if the work was cancelled.
    """
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if work.cancelled():
            raise
        try:
            await asyncio.wait([work], timeout=FINISH_SECONDS)
        finally:
            work.cancel()
        await asyncio.wait([work])
        if work.cancelled():
            raise
        return work.result()
