"""Use a folder's stack: join the one that runs, else own one for as long as it is used."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.own import own

__all__ = ["Use", "running", "use"]

JOIN_SECONDS = 90.0
POLL_SECONDS = 0.05


class Use(NamedTuple):
    """A stack to use; it is ``owned`` by this process or by another."""

    addresses: Addresses
    owned: bool


def running(home: Home) -> Addresses | None:
    """The stack that runs in ``home`` and can be joined, None when there is none."""
    return Addresses.read(home.stack) if home.root.exists() and home.owned() else None


@contextmanager
def use(home: Home, waiting: Callable[[], None]) -> Generator[Use]:
    """Join or own the stack of ``home``. An owner that must wait for those who joined calls ``waiting``."""
    with ExitStack() as leave:
        try:
            _, addresses = leave.enter_context(own(home, "run"))
        except BusyError:
            leave.enter_context(home.user_lock())
            yield Use(_joined(home), owned=False)
            return
        addresses.write(home.stack)
        yield Use(addresses, owned=True)
        home.stack.unlink(missing_ok=True)
        _let_others_finish(home, waiting)


def _joined(home: Home) -> Addresses:
    """The addresses, once the owner publishes them. Raises StackError when it never does."""
    deadline = time.monotonic() + JOIN_SECONDS
    while time.monotonic() < deadline:
        found = Addresses.read(home.stack)
        if found:
            return found
        if not home.owned():
            raise StackError(f"the stack in {home.root} has just stopped: try again")
        time.sleep(POLL_SECONDS)
    raise StackError(f"the stack in {home.root} is still starting after {JOIN_SECONDS:g} s: see {home.log('stack')}")


def _let_others_finish(home: Home, waiting: Callable[[], None]) -> None:
    if home.in_use():
        waiting()
        while home.in_use():
            time.sleep(POLL_SECONDS)
