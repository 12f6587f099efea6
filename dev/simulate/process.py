"""A simulated process: an event loop that runs real asyncio code in the world's time, and that can be killed.

Timers of the loop are events of the world; ready callbacks run at once and take no time. A dead process has no effect
on the world: its tasks are cancelled for cleanup and its timers never fire. Code of the world that it calls must check
``is_dead`` first.

A process that only polls the clock sleeps longer and longer, so that a delay of a year is simulated with a few thousand
timers. Real timers fire late as well on a busy computer, so no code may rely on being woken in time.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

__all__ = ["ProcessLoop"]

IDLE = 40
"""Number of timers without activity in between after which further timers are delayed."""

LONGEST_LOOK_MS = 5_000
"""Longer timers are not delayed: they do not poll the clock."""


class Alarm(Protocol):
    """A scheduled event of the world, cancelled by ``off``."""

    off: bool


class Clock(Protocol):
    """The part of the world that a loop uses."""

    now: int

    def later(self, ms: int, act: Callable[[], None]) -> Alarm: ...


class ProcessLoop(asyncio.AbstractEventLoop):
    """Supports timers, tasks and threads, but no files or sockets. ``owner`` is the object whose process this is: code
    that runs here finds it through the running loop.
    """

    def __init__(self, clock: Clock, owner: Any) -> None:
        self.owner = owner
        self.is_dead = False
        self._clock = clock
        self._ready: deque[Any] = deque()
        self._alarms: dict[int, Alarm] = {}
        self._idle = 0
        self._errors: list[BaseException] = []

    # ---- from the world ---------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Run callbacks until none is ready. Raises the first error of a callback."""
        before = _running_loop()
        _set_running_loop(self)
        try:
            while self._ready:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
        finally:
            _set_running_loop(before)
        if self._errors and not self.is_dead:
            raise self._errors[0]

    def mark_active(self) -> None:
        """Note that the process did more than poll the clock, so its timers are not delayed."""
        self._idle = 0

    def die(self) -> None:
        """Kill the process."""
        self.is_dead = True
        for alarm in self._alarms.values():
            alarm.off = True
        for _ in range(100):
            running = [task for task in asyncio.all_tasks(self) if not task.done()]
            if not running:
                break
            for task in running:
                task.cancel()
            self.pump()

    # ---- for asyncio ------------------------------------------------------------------------------------------------

    def time(self) -> float:
        return self._clock.now / 1000

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, **options)

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_soon_threadsafe(self, callback: Any, *args: Any, context: Any = None) -> asyncio.Handle:  # type: ignore[override]
        return self.call_soon(callback, *args, context=context)

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.is_dead:
            ms = max(0, math.ceil(when * 1000 - self._clock.now - 1e-3))
            if self._idle > IDLE and ms <= LONGEST_LOOK_MS:
                ms <<= min(24, (self._idle - IDLE) // 10)
            self._alarms[id(handle)] = self._clock.later(ms, lambda: self._fire(handle))
        return handle

    def _fire(self, handle: asyncio.TimerHandle) -> None:
        self._alarms.pop(id(handle), None)
        self._idle += 1
        self._ready.append(handle)
        self.pump()

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        alarms = self._alarms.pop(id(handle), None)
        if alarms is not None:
            alarms.off = True

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Run the function in a simulated thread, which takes no time."""
        del executor
        done = self.create_future()
        self.call_soon(lambda: None if done.done() else done.set_result(func(*args)))
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None:
            self._errors.append(error)

    async def shutdown_asyncgens(self) -> None:
        """Do nothing: simulated processes leave no asynchronous generators open."""

    def run(self, work: Coroutine[Any, Any, Any], on_end: Callable[[asyncio.Task[Any]], None]) -> None:
        """Start ``work``; ``on_end`` is called with its task, unless the process dies first."""
        task = self.create_task(work)
        task.add_done_callback(lambda done: None if self.is_dead else on_end(done))
        self.pump()


_running_loop: Any = getattr(asyncio, "_get_running_loop")  # noqa: B009 - public, but for its name: event loops use it
_set_running_loop: Any = getattr(asyncio, "_set_running_loop")  # noqa: B009
