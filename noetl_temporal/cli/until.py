"""Go on until a person or a supervisor says stop."""

from __future__ import annotations

import asyncio
import signal

__all__ = ["until_stopped"]


async def until_stopped() -> None:
    """Return on the first SIGINT or SIGTERM; the next one interrupts as usual."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM)
    for number in numbers:
        loop.add_signal_handler(number, stopped.set)
    await stopped.wait()
    for number in numbers:
        loop.remove_signal_handler(number)
