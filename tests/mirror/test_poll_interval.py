"""How often the event log is queried for new rows."""

from __future__ import annotations

import asyncio

import pytest

from noetl_temporal.mirror import poll_interval
from noetl_temporal.mirror.poll_interval import PollInterval


async def test_a_reset_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIN_SECONDS", "MAX_SECONDS"):
        monkeypatch.setattr(poll_interval, name, 600.0)
    interval = PollInterval()
    waiting = asyncio.create_task(interval.wait(found_rows=False))
    await asyncio.sleep(0)
    assert not waiting.done()
    interval.reset()
    async with asyncio.timeout(30):
        await waiting
        interval.reset()  # before the wait that it ends
        await interval.wait(found_rows=False)
