"""SIGINT and SIGTERM while a run is submitted and followed: counted, and passed to the current handler."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager

__all__ = ["Interrupts", "caught_interrupts"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupts:
    """Counts SIGINT and SIGTERM.

    ``count`` is how many came so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._on_signal: Callable[[], None] | None = None

    @contextmanager
    def handled(self, on_signal: Callable[[], None]) -> Generator[None]:
        """Call ``on_signal`` at each signal."""
        self._on_signal = on_signal
        try:
            yield
        finally:
            self._on_signal = None

    def arrived(self) -> None:
        """Count one more signal."""
        self.count += 1
        if self._on_signal is not None:
            self._on_signal()


@contextmanager
def caught_interrupts() -> Generator[Interrupts]:
    """Catch SIGINT and SIGTERM while the block runs, so that they cancel no task in the middle of a request."""
    interrupts = Interrupts()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupts.arrived)
    try:
        yield interrupts
    finally:
        # Blocked meanwhile: a KeyboardInterrupt between the two would leave the loop's file descriptor to the signals.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
