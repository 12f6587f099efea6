"""Concurrent requests are performed in batches, and a lone request never waits for others."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from noetl_activities.sinks.batcher import MAX_BATCH, MAX_BATCH_BYTES, BatchedRequest, Batcher

Batch = Sequence[BatchedRequest[int, int]]


class Target:
    """Responds with twice the number, once ``free``. ``batches`` records the numbers of each batch."""

    def __init__(self, is_free: bool = True) -> None:
        self.batches: list[list[int]] = []
        self.cancelled_batches: list[list[int]] = []
        self.free = asyncio.Event()
        self.idle = 0
        self.batcher = Batcher(self.perform, self.became_idle)
        if is_free:
            self.free.set()

    async def perform(self, batch: Batch) -> None:
        numbers = [request.request for request in batch]
        self.batches.append(numbers)
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled_batches.append(numbers)
            raise
        for request in batch:
            if request.request >= 0:
                request.respond(2 * request.request)

    def became_idle(self) -> None:
        self.idle += 1

    def submit(self, number: int, size: int = 0) -> asyncio.Task[int | None]:
        return asyncio.create_task(self.batcher.submit(number, size))


async def settle() -> None:
    """All that can be done now has been done."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_single_request_does_not_wait_for_others() -> None:
    target = Target()
    assert await target.submit(1) == 2
    assert await target.submit(2) == 4
    assert target.batches == [[1], [2]]
    await settle()
    assert target.idle == 2


async def test_requests_of_the_same_moment_are_one_batch() -> None:
    target = Target()
    assert await asyncio.gather(*map(target.submit, range(5))) == [0, 2, 4, 6, 8]
    assert target.batches == [[0, 1, 2, 3, 4]]


async def test_requests_during_a_batch_form_the_next() -> None:
    target = Target(is_free=False)
    first = target.submit(0)
    await settle()
    others = [target.submit(n) for n in (1, 2)]
    await settle()
    others.append(target.submit(3))
    await settle()
    target.free.set()
    assert await asyncio.gather(first, *others) == [0, 2, 4, 6]
    assert target.batches == [[0], [1, 2, 3]]


async def test_a_batch_has_a_maximum() -> None:
    target = Target()
    await asyncio.gather(*map(target.submit, range(2 * MAX_BATCH + 1)))
    assert [len(batch) for batch in target.batches] == [MAX_BATCH, MAX_BATCH, 1]


async def test_large_requests_make_small_batches() -> None:
    target = Target()
    sizes = [MAX_BATCH_BYTES // 2, MAX_BATCH_BYTES // 2, 1, 2 * MAX_BATCH_BYTES, 1]
    await asyncio.gather(*(target.submit(n, size) for n, size in enumerate(sizes)))
    assert target.batches == [[0, 1], [2], [3], [4]]


async def test_a_request_that_the_batch_does_not_answer_gets_no_result() -> None:
    assert await asyncio.gather(*map(Target().submit, (1, -1))) == [2, None]


async def test_a_cancelled_call_leaves_the_batch_that_has_not_begun() -> None:
    target = Target(is_free=False)
    first, second, third = target.submit(0), target.submit(1), target.submit(2)
    await settle()
    fourth, fifth = target.submit(3), target.submit(4)
    await settle()
    fourth.cancel()
    target.free.set()
    assert [await lookup for lookup in (first, second, third, fifth)] == [0, 2, 4, 8]
    assert target.batches == [[0, 1, 2], [4]]


async def test_a_batch_is_cancelled_when_all_of_its_calls_are() -> None:
    target = Target(is_free=False)
    tasks = [target.submit(0), target.submit(1)]
    await settle()
    tasks[0].cancel()
    await settle()
    assert target.cancelled_batches == []
    tasks[1].cancel()
    await settle()
    assert target.cancelled_batches == [[0, 1]]
    assert target.idle == 1
    target.free.set()
    assert await target.submit(2) == 4
