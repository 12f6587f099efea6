"""What many calls want at the same time is done at once, and nobody waits for others who are not there."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from noetl_activities.sinks.gathering import MOST, MOST_BYTES, Gathering, Waiting

Batch = Sequence[Waiting[int, int]]


class Place:
    """Answers twice the number, once ``free``. ``batches`` has what was wanted together."""

    def __init__(self, is_free: bool = True) -> None:
        self.batches: list[list[int]] = []
        self.cancelled: list[list[int]] = []
        self.free = asyncio.Event()
        self.idle = 0
        self.gathering = Gathering(self.perform, self.became_idle)
        if is_free:
            self.free.set()

    async def perform(self, batch: Batch) -> None:
        numbers = [one.wanted for one in batch]
        self.batches.append(numbers)
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.cancelled.append(numbers)
            raise
        for one in batch:
            if one.wanted >= 0:
                one.settle(2 * one.wanted)

    def became_idle(self) -> None:
        self.idle += 1

    def want(self, number: int, size: int = 0) -> asyncio.Task[int | None]:
        return asyncio.create_task(self.gathering.want(number, size))


async def settled() -> None:
    """All that can be done now has been done."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_alone_does_not_wait_for_others() -> None:
    place = Place()
    assert await place.want(1) == 2
    assert await place.want(2) == 4
    assert place.batches == [[1], [2]]
    await settled()
    assert place.idle == 2


async def test_what_is_wanted_at_the_same_moment_is_one_batch() -> None:
    place = Place()
    assert await asyncio.gather(*map(place.want, range(5))) == [0, 2, 4, 6, 8]
    assert place.batches == [[0, 1, 2, 3, 4]]


async def test_what_comes_while_a_batch_is_under_way_is_the_next() -> None:
    place = Place(is_free=False)
    first = place.want(0)
    await settled()
    others = [place.want(n) for n in (1, 2)]
    await settled()
    others.append(place.want(3))
    await settled()
    place.free.set()
    assert await asyncio.gather(first, *others) == [0, 2, 4, 6]
    assert place.batches == [[0], [1, 2, 3]]


async def test_a_batch_has_a_most() -> None:
    place = Place()
    await asyncio.gather(*map(place.want, range(2 * MOST + 1)))
    assert [len(batch) for batch in place.batches] == [MOST, MOST, 1]


async def test_large_ones_make_small_batches() -> None:
    place = Place()
    sizes = [MOST_BYTES // 2, MOST_BYTES // 2, 1, 2 * MOST_BYTES, 1]
    await asyncio.gather(*(place.want(n, size) for n, size in enumerate(sizes)))
    assert place.batches == [[0, 1], [2], [3], [4]]


async def test_who_is_not_settled_is_told_so() -> None:
    assert await asyncio.gather(*map(Place().want, (1, -1))) == [2, None]


async def test_a_cancelled_call_leaves_the_batch_that_has_not_begun() -> None:
    place = Place(is_free=False)
    first, second, third = place.want(0), place.want(1), place.want(2)
    await settled()
    fourth, fifth = place.want(3), place.want(4)
    await settled()
    fourth.cancel()
    place.free.set()
    assert [await one for one in (first, second, third, fifth)] == [0, 2, 4, 8]
    assert place.batches == [[0, 1, 2], [4]]


async def test_a_batch_is_given_up_when_all_of_its_calls_are() -> None:
    place = Place(is_free=False)
    tasks = [place.want(0), place.want(1)]
    await settled()
    tasks[0].cancel()
    await settled()
    assert place.cancelled == []
    tasks[1].cancel()
    await settled()
    assert place.cancelled == [[0, 1]]
    assert place.idle == 1
    place.free.set()
    assert await place.want(2) == 4
