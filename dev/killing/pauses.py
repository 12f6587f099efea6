"""Pauses a run around a kill: it must continue when it is resumed, although its worker was killed meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio.service import RPCError

from noetl_temporal.client import RunHandle
from noetl_temporal.control.request_sending import NoAnswerError, RequestRefusedError

__all__ = ["paused_run"]

RETRY_SECONDS = 1.0
TRIES = 120


@asynccontextmanager
async def paused_run(run: RunHandle, rng: random.Random) -> AsyncGenerator[bool]:
    """Pause the run for the block, sometimes with its calls, and sometimes with a concurrent resume.

    Yields False if it cannot be paused, for example because it has ended.
    """
    try:
        await _pause(run, rng)
    except (RequestRefusedError, RPCError, OSError) as error:
        print(f"not paused: {error}"[:120], flush=True)
        yield False
        await _resume(run)  # a request without an answer may have been accepted later
        return
    await asyncio.sleep(rng.uniform(0.5, 2))
    try:
        yield True
    finally:
        await asyncio.sleep(rng.uniform(0.5, 2))
        await _resume(run)


async def _pause(run: RunHandle, rng: random.Random) -> None:
    pause = run.pause(by="killing", now=rng.random() < 0.5)
    if rng.random() < 0.7:
        await pause
        return
    pause_result, resume_result = await asyncio.gather(pause, run.resume(by="killing"), return_exceptions=True)
    if isinstance(pause_result, BaseException):
        raise pause_result
    if isinstance(resume_result, BaseException) and not isinstance(resume_result, RequestRefusedError):
        raise resume_result


async def _resume(run: RunHandle) -> None:
    """Resume the run, with retries while killed processes are unavailable. A run that is not paused is resumed."""
    for _ in range(TRIES):
        try:
            await asyncio.wait_for(run.resume(by="killing"), 30)
        except NoAnswerError:
            await asyncio.sleep(RETRY_SECONDS)
        except RequestRefusedError:
            return
        except (RPCError, OSError, TimeoutError):
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return
    raise TimeoutError(f"run {run.execution_id} cannot be resumed")
