"""Waiting takes no time, and what happens keeps its order."""

from __future__ import annotations

import asyncio
import time

import pytest

from noetl_temporal.playbook_tests.virtual_time import StuckError, VirtualTimeLoop


def run(work: object) -> object:
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(work)  # type: ignore[arg-type]


def test_a_day_takes_no_time() -> None:
    started_at = time.monotonic()

    async def waiting() -> float:
        await asyncio.sleep(86_400)
        return asyncio.get_running_loop().time()

    assert run(waiting()) == pytest.approx(86_400)
    assert time.monotonic() - started_at < 1


def test_timers_fire_in_their_order() -> None:
    async def order() -> list[int]:
        order: list[int] = []

        async def after(seconds: int) -> None:
            await asyncio.sleep(seconds)
            order.append(seconds)

        await asyncio.gather(*map(after, (30, 10, 20)))
        return order

    assert run(order()) == [10, 20, 30]


def test_waiting_for_nothing_is_an_error() -> None:
    async def forever() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StuckError):
        run(forever())


def test_work_in_a_thread_takes_no_virtual_time() -> None:
    async def run_in_thread() -> tuple[int, float]:
        return await asyncio.to_thread(lambda: 7), asyncio.get_running_loop().time()

    assert run(run_in_thread()) == (7, 0)
