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

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class BatchedRequest(Generic[RequestT, ResponseT]):
    """A request of one call, ``size`` bytes long. ``response`` is the future that the call awaits."""

    def __init__(self, request: RequestT, size: int) -> None:
        self.request = request
        self.size = size
        self.response: asyncio.Future[ResponseT | None] = asyncio.get_running_loop().create_future()

    @property
    def is_open(self) -> bool:
        """Whether the request has no response yet and its call has not been cancelled."""
        return not self.response.done()

    def respond(self, response: ResponseT | None) -> None:
        """Set the response, if the request is open."""
        if self.is_open:
            self.response.set_result(response)


class Batcher(Generic[RequestT, ResponseT]):
    """The batches of one target. ``perform`` performs a batch and responds to its requests; the response to a request
    that it leaves open is None. ``on_idle`` is called when no request is left.
    """

    def __init__(
        self,
        perform: Callable[[Sequence[BatchedRequest[RequestT, ResponseT]]], Awaitable[None]],
        on_idle: Callable[[], object],
    ) -> None:
        self._perform = perform
        self._on_idle = on_idle
        self._queue: deque[BatchedRequest[RequestT, ResponseT]] = deque()
        self._task: asyncio.Task[None] | None = None

    async def submit(self, request: RequestT, size: int) -> ResponseT | None:
        """Return the response; None if the caller has to perform the request itself."""
        batched_request = BatchedRequest[RequestT, ResponseT](request, size)
        self._queue.append(batched_request)
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await batched_request.response

    async def _run(self) -> None:
        try:
            await asyncio.sleep(0)  # requests submitted in the same loop iteration join the first batch
            while batch := self._next_batch():
                await self._perform_batch(batch)
        finally:
            self._task = None
            self._on_idle()

    def _next_batch(self) -> list[BatchedRequest[RequestT, ResponseT]]:
        batch: list[BatchedRequest[RequestT, ResponseT]] = []
        size = 0
        while self._queue and len(batch) < MAX_BATCH:
            if batch and size + self._queue[0].size > MAX_BATCH_BYTES:
                break
            batched_request = self._queue.popleft()
            if batched_request.is_open:
                batch.append(batched_request)
                size += batched_request.size
        return batch

    async def _perform_batch(self, batch: Sequence[BatchedRequest[RequestT, ResponseT]]) -> None:
        """Perform the batch. It is cancelled if all of its calls are cancelled."""
        batch_run = asyncio.ensure_future(self._perform(batch))

        def cancel_when_unused(_response: asyncio.Future[ResponseT | None]) -> None:
            if all(batched_request.response.cancelled() for batched_request in batch):
                batch_run.cancel()

        for batched_request in batch:
            batched_request.response.add_done_callback(cancel_when_unused)
        try:
            await asyncio.wait([batch_run])  # does not raise: an error of `perform` leaves its requests open
        finally:
            batch_run.cancel()
            for batched_request in batch:
                batched_request.respond(None)
