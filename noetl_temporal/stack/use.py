"""Joins the running stack of a folder, or starts one that stops when it is no longer used."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.listening import listens
from noetl_temporal.stack.locks import ReportedWait

__all__ = ["Use", "running_stack", "use_stack"]

JOIN_SECONDS = 90.0
POLL_SECONDS = 0.05


class Use(NamedTuple):
    """A stack that this process uses. ``is_owned``: this process has started it, and stops it."""

    addresses: Addresses
    is_owned: bool


def running_stack(home: Home) -> Addresses | None:
    """Return the running stack in ``home``; None if there is none or it is still starting.

    The port must belong to Temporal's own process: another process that listens there would receive all runs."""
    addresses, owner = Addresses.read(home.addresses_file), home.owner()
    if addresses is None or owner is None or addresses.owner_pid != owner.pid:
        return None
    return addresses if listens(addresses.temporal_pid, addresses.temporal_port) else None


@contextmanager
def use_stack(home: Home, report_wait: Callable[[], None]) -> Generator[Use]:
    """Join the stack of ``home``, or start and own it. Raises StackError.

    At the end of the block, an owner calls ``report_wait`` and waits if other processes still use the stack.
    """
    with ExitStack() as exit_stack:
        wait = ReportedWait(lambda: f"waiting for the stack: {home.owner_message()}")
        deadline = time.monotonic() + JOIN_SECONDS
        while time.monotonic() < deadline:
            joined_addresses = _join(home, exit_stack)
            if joined_addresses:
                yield Use(joined_addresses, is_owned=False)
                return
            from noetl_temporal.stack.owner import owned_stack  # not needed to join a stack

            try:
                _, addresses = exit_stack.enter_context(owned_stack(home, "run"))
            except BusyError:
                wait.pause(POLL_SECONDS)
            else:
                addresses.write(home.addresses_file)
                yield Use(addresses, is_owned=True)
                home.addresses_file.unlink(missing_ok=True)
                _wait_for_other_users(home, report_wait)
                return
        raise StackError(f"the stack in {home.root} was not ready after {JOIN_SECONDS:g} s: see {home.log('stack')}")


def _join(home: Home, exit_stack: ExitStack) -> Addresses | None:
    """Return the running stack of another owner, in use until ``exit_stack`` closes; None while it starts or stops.

    A stack that is stopping is not locked, because its owner waits until no process holds the lock.
    """
    addresses = running_stack(home)
    if addresses is None:
        return None
    with ExitStack() as lock:
        lock.enter_context(home.user_lock())
        if running_stack(home) != addresses:
            return None
        exit_stack.push(lock.pop_all())
    return addresses


def _wait_for_other_users(home: Home, report_wait: Callable[[], None]) -> None:
    if home.is_in_use():
        report_wait()
        while home.is_in_use():
            time.sleep(POLL_SECONDS)
