"""Pauses a run around a kill: it must continue when it is resumed, although its worker was killed meanwhile."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from temporalio.service import RPCError

from noetl_temporal.client import RunHandle
from noetl_temporal.request_sending import NoAnswerError, RequestRefusedError

__all__ = ["paused_run"]

AGAIN_SECONDS = 1.0
TRIES = 120


@asynccontextmanager
async def paused_run(run: RunHandle, chance: random.Random) -> AsyncGenerator[bool]:
    """Pause the run for the block, sometimes with its calls, and sometimes with a concurrent resume.

    Yields False if it cannot be paused, for example because it has ended.
    """
    try:
        await _pause(run, chance)
    except (RequestRefusedError, RPCError, OSError) as error:
        print(f"not paused: {error}"[:120], flush=True)
        yield False
        await _resume(run)  # a request without an answer may have been accepted later
        return
    await asyncio.sleep(chance.uniform(0.5, 2))
    try:
        yield True
    finally:
        await asyncio.sleep(chance.uniform(0.5, 2))
        await _resume(run)


async def _pause(run: RunHandle, chance: random.Random) -> None:
    pause = run.pause(by="killing", now=chance.random() < 0.5)
    if chance.random() < 0.7:
        await pause
        return
    paused_, resumed = await asyncio.gather(pause, run.resume(by="killing"), return_exceptions=True)
    if isinstance(paused_, BaseException):
        raise paused_
    if isinstance(resumed, BaseException) and not isinstance(resumed, RequestRefusedError):
        raise resumed


async def _resume(run: RunHandle) -> None:
    """Resume the run, with retries while killed processes are unavailable. A run that is not paused is resumed."""
    for _ in range(TRIES):
        try:
            await asyncio.wait_for(run.resume(by="killing"), 30)
        except NoAnswerError:
            await asyncio.sleep(AGAIN_SECONDS)
        except RequestRefusedError:
            return
        except (RPCError, OSError, TimeoutError):
            await asyncio.sleep(AGAIN_SECONDS)
        else:
            return
    raise TimeoutError(f"run {run.execution_id} cannot be resumed")
