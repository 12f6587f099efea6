"""The signals that stop a service."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["stop_event"]

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_event() -> Generator[asyncio.Event]:
    """Yield an event that the first SIGINT or SIGTERM sets; the next one interrupts as usual.

    Enter it before the service starts: an earlier signal ends the process immediately.
    """
    stop_request = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stop_request.set()
        remove_handlers()

    def remove_handlers() -> None:
        for number in SIGNALS:
            loop.remove_signal_handler(number)

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    try:
        yield stop_request
    finally:
        remove_handlers()
