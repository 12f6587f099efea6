"""Collects concurrent requests for one target in batches.

There is no timer. The first request starts a batch immediately; requests that arrive while a batch is in progress form
the next batch. So a single request never waits for others, and batches grow with the load.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

__all__ = ["MAX_BATCH", "MAX_BATCH_BYTES", "BatchedRequest", "Batcher"]

MAX_BATCH = 100
"""Requests in one batch (semantics.md 26b)."""

MAX_BATCH_BYTES = 4_000_000
"""Maximum size of a batch of several requests. A larger request forms a batch alone."""

Request = TypeVar("Request")
Response = TypeVar("Response")


class BatchedRequest(Generic[Request, Response]):
    """The request of one call, which waits for the response. ``size`` in bytes."""

    def __init__(self, request: Request, size: int) -> None:
        self.request = request
        self.size = size
        self.response: asyncio.Future[Response | None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """It has no response yet, and its call has not been cancelled."""
        return not self.response.done()

    def respond(self, response: Response | None) -> None:
        """Set the response, if the request is open."""
        if self.is_open:
            self.response.set_result(response)


class Batcher(Generic[Request, Response]):
    """The batches of one target. ``perform`` performs a batch and responds to its requests; the response to a request
    that it leaves open is None. ``on_idle`` is called when no request is left.
    """

    def __init__(
        self,
        perform: Callable[[Sequence[BatchedRequest[Request, Response]]], Awaitable[None]],
        on_idle: Callable[[], object],
    ) -> None:
        self._perform = perform
        self._on_idle = on_idle
        self._queue: deque[BatchedRequest[Request, Response]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, request: Request, size: int) -> Response | None:
        """Return the response; None if the caller has to perform the request itself."""
        batched = BatchedRequest[Request, Response](request, size)
        self._queue.append(batched)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await batched.response

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)  # requests submitted in the same loop iteration join the first batch
            while batch := self._next_batch():
                await self._perform_batch(batch)
        finally:
            self._task = None
            self._on_idle()

    def _next_batch(self) -> list[BatchedRequest[Request, Response]]:
        batch: list[BatchedRequest[Request, Response]] = []
        size = 0
        while self._queue and len(batch) < MAX_BATCH:
            if batch and size + self._queue[0].size > MAX_BATCH_BYTES:
                break
            request = self._queue.popleft()
            if request.is_open:
                batch.append(request)
                size += request.size
        return batch

    async def _perform_batch(self, batch: Sequence[BatchedRequest[Request, Response]]) -> None:
        """Perform the batch. It is cancelled if all of its calls are cancelled."""
        work = asyncio.ensure_future(self._perform(batch))

        def cancel_when_unused(_response: asyncio.Future[Response | None]) -> None:
            if all(queued.response.cancelled() for queued in batch):
                work.cancel()

        for request in batch:
            request.response.add_done_callback(cancel_when_unused)
        try:
            await asyncio.wait([work])
        finally:
            work.cancel()
            for request in batch:
                request.respond(None)
