"""An event loop whose clock advances to the next timer as soon as it is idle.

So a delay of an hour takes no time, and everything happens at the same virtual time in every run.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["StuckError", "VirtualTimeLoop"]


class StuckError(Exception):
    """The run waits for something that will never come."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop with virtual time, which begins at 0. It serves timers and tasks, no sockets; work for threads runs
    immediately. ``idle`` is called before the time advances, and returns whether it has created new work.
    """

    def __init__(self) -> None:
        self._seconds = 0.0
        self.idle: Callable[[], bool] = lambda: False
        super().__init__(_Selector(self))

    def time(self) -> float:
        """Return seconds since it began."""
        return self._seconds

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Do the work immediately, as a thread would take real time."""
        del executor
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def advance(self, seconds: float) -> None:
        """Advance the clock."""
        self._seconds += seconds


class _Selector(selectors.BaseSelector):
    """A selector that advances the clock of its loop instead of waiting; a real selector holds the files."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self._loop = loop
        self._files = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready now; if nothing is, advance the clock."""
        ready = self._files.select(0)
        if ready or timeout == 0 or self._loop.idle():
            return ready
        if timeout is None:
            raise StuckError("the run waits for something that never happens")
        self._loop.advance(timeout)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        """See selectors.BaseSelector."""
        return self._files.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        """See selectors.BaseSelector."""
        return self._files.unregister(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        """See selectors.BaseSelector."""
        return self._files.get_map()

    def close(self) -> None:
        """See selectors.BaseSelector."""
        self._files.close()
