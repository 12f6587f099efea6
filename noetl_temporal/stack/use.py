"""Use a folder's stack: join the one that runs, else own one for as long as it is used."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.listening import listens
from noetl_temporal.stack.locks import Wait

__all__ = ["Use", "running", "use"]

JOIN_SECONDS = 90.0
POLL_SECONDS = 0.05


class Use(NamedTuple):
    """A stack to use; it is ``owned`` by this process or by another."""

    addresses: Addresses
    owned: bool


def running(home: Home) -> Addresses | None:
    """Return the running stack in ``home``; None if there is none or it is still starting.

    Temporal's own process must listen on its port: another process that took the port would receive all runs."""
    addresses, owner = Addresses.read(home.stack), home.owner()
    if addresses is None or owner is None or addresses.pid != owner.pid:
        return None
    return addresses if listens(addresses.temporal_pid, addresses.temporal_port) else None


@contextmanager
def use(home: Home, waiting: Callable[[], None]) -> Generator[Use]:
    """Join or own the stack of ``home``. An owner that must wait for those who joined calls ``waiting``."""
    with ExitStack() as leave:
        wait = Wait(lambda: f"waiting for the stack: {home.busy()}")
        deadline = time.monotonic() + JOIN_SECONDS
        while time.monotonic() < deadline:
            joined = _join(home, leave)
            if joined:
                yield Use(joined, owned=False)
                return
            from noetl_temporal.stack.owner import owned_stack  # what starts servers, for who has to

            try:
                _, addresses = leave.enter_context(owned_stack(home, "run"))
            except BusyError:
                wait.pause(POLL_SECONDS)
            else:
                addresses.write(home.stack)
                yield Use(addresses, owned=True)
                home.stack.unlink(missing_ok=True)
                _let_others_finish(home, waiting)
                return
        raise StackError(f"the stack in {home.root} was not ready after {JOIN_SECONDS:g} s: see {home.log('stack')}")


def _join(home: Home, leave: ExitStack) -> Addresses | None:
    """Return the running stack of another owner, locked until ``leave`` closes; None while it starts or stops.

    A stack that is stopping is not locked, because its owner waits for all users of the stack."""
    addresses = running(home)
    if addresses is None:
        return None
    with ExitStack() as hold:
        hold.enter_context(home.user_lock())
        if running(home) != addresses:
            return None
        leave.push(hold.pop_all())
    return addresses


def _let_others_finish(home: Home, waiting: Callable[[], None]) -> None:
    if home.in_use():
        waiting()
        while home.in_use():
            time.sleep(POLL_SECONDS)
