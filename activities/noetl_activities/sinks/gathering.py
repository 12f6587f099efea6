"""Collects what many calls want of one place, so that it is done for all of them at once.

There is no timer. What is wanted first begins at once; what is wanted while that is under way is gathered, and is the
next batch. So whoever is alone never waits for others, and the busier a place is, the larger its batches are.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["MOST", "Gathering", "Waiting"]

MOST = 100
"""Of one batch (semantics.md 26b)."""

MOST_BYTES = 4_000_000
"""Of one batch that holds several."""

Wanted = TypeVar("Wanted")
Answer = TypeVar("Answer")


class Waiting(Generic[Wanted, Answer]):
    """What one call wants, and waits for. ``size`` in bytes."""

    def __init__(self, wanted: Wanted, size: int) -> None:
        self.wanted = wanted
        self.size = size
        self.answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """It has no answer yet, and the call has not been cancelled."""
        return not self.answer.done()

    def settle(self, answer: Answer | None) -> None:
        """Give the answer to a call that still waits."""
        if self.is_open:
            self.answer.set_result(answer)


class Gathering(Generic[Wanted, Answer]):
    """Of one place. ``perform`` does a batch and settles those of it for whom it is done. ``on_idle`` is called when
    nobody waits for anything any more.
    """

    def __init__(
        self, perform: Callable[[Sequence[Waiting[Wanted, Answer]]], Awaitable[None]], on_idle: Callable[[], object]
    ) -> None:
        self._perform = perform
        self._on_idle = on_idle
        self._waiting: deque[Waiting[Wanted, Answer]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def want(self, wanted: Wanted, size: int) -> Answer | None:
        """The answer; None when the call has to do by itself what it wanted."""
        waiting = Waiting[Wanted, Answer](wanted, size)
        self._waiting.append(waiting)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await waiting.answer

    async def _work(self) -> None:
        try:
            await asyncio.sleep(0)  # who wants something at the same moment is in the first batch
            while batch := self._next():
                await self._done(batch)
        finally:
            self._task = None
            self._on_idle()

    def _next(self) -> list[Waiting[Wanted, Answer]]:
        batch: list[Waiting[Wanted, Answer]] = []
        size = 0
        while self._waiting and len(batch) < MOST:
            if batch and size + self._waiting[0].size > MOST_BYTES:
                break
            one = self._waiting.popleft()
            if one.is_open:
                batch.append(one)
                size += one.size
        return batch

    async def _done(self, batch: Sequence[Waiting[Wanted, Answer]]) -> None:
        """Perform it, unless all of its calls are cancelled meanwhile."""
        work = asyncio.ensure_future(self._perform(batch))

        def given_up(_answer: asyncio.Future[Answer | None]) -> None:
            if all(one.answer.cancelled() for one in batch):
                work.cancel()

        for one in batch:
            one.answer.add_done_callback(given_up)
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()
            for one in batch:
                one.settle(None)
