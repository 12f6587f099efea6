"""How often who waits for events looks for them."""

from __future__ import annotations

import asyncio

import pytest

from noetl_temporal.mirror import pace as module
from noetl_temporal.mirror.pace import Pace


async def test_a_pause_ends_when_something_is_about_to_come(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QUICK_SECONDS", "SLOW_SECONDS"):
        monkeypatch.setattr(module, name, 600.0)
    pace = Pace()
    pausing = asyncio.create_task(pace.pause(came=False))
    await asyncio.sleep(0)
    assert not pausing.done()
    pace.hurry()
    async with asyncio.timeout(30):
        await pausing
        pace.hurry()  # before the pause that it ends
        await pace.pause(came=False)
