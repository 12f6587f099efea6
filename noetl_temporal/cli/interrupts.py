"""Counts SIGINT and SIGTERM while a run is submitted and followed, and calls the current handler."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["Interrupts", "catch_interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Counts SIGINT and SIGTERM; ``count`` is their number so far."""

    def __init__(self) -> None:
        self.count = 0
        self._on_signal: Callable[[], None] | None = None

    @contextmanager
    def handle_with(self, on_signal: Callable[[], None]) -> Generator[None]:
        """Call ``on_signal`` for each signal while the block runs."""
        self._on_signal = on_signal
        try:
            yield
        finally:
            self._on_signal = None

    def record_signal(self) -> None:
        """Count a signal and call the current handler."""
        self.count += 1
        if self._on_signal is not None:
            self._on_signal()


@contextmanager
def catch_interrupts() -> Generator[Interrupts]:
    """Catch SIGINT and SIGTERM while the block runs, so that they do not cancel a task in the middle of a request."""
    interrupts = Interrupts()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupts.record_signal)
    try:
        yield interrupts
    finally:
        # The signals are blocked meanwhile: a KeyboardInterrupt between two removals would leave the event loop's
        # wakeup descriptor installed.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
