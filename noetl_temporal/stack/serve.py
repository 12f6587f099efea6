"""Keeps the stack of a folder running: owns it, runs a worker and a mirror, and restarts them when they end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType

from noetl_activities.variables import HOME_VARIABLE
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.crash import record_crash
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.files import read_text
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import Stack, owned_stack
from noetl_temporal.stack.process import Server, start
from noetl_temporal.stack.program import import_path, program

__all__ = ["serve"]

SERVICES = {"worker": "serving", "mirror": "mirroring"}
"""Each service, with a word that its log contains once it is ready."""

OPTIONS = {"worker": ("--grace", "10")}
"""Arguments of the services. The worker's --grace is shorter than SERVICE_STOP_SECONDS."""
POLL_SECONDS = 0.2
RESTART_SECONDS = 1.0
"""The first delay before a restart."""

MAX_RESTART_SECONDS = 30.0
LASTING_SECONDS = 60.0
"""A service that ran longer than this is restarted after the first delay."""


def serve(home: Home) -> None:
    """Own the stack until SIGTERM or SIGINT. Raises StackError if a server ends by itself, and records why."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_on_signal)
    try:
        _serve(home)
    except BusyError:
        raise
    except StackError as error:
        record_crash(home, error)
        raise


def _serve(home: Home) -> None:
    with owned_stack(home, "dev") as (stack, addresses):
        _migrate_event_log(addresses)
        services = [_Service(stack, name, partial(_start_service, home, addresses)) for name in SERVICES]
        for service, word in zip(services, SERVICES.values(), strict=True):
            if service.server:
                service.server.wait_ready(partial(_has_logged, service.server, word))
        home.crash_file.unlink(missing_ok=True)
        addresses.write(home.stack)
        _watch(stack, services)


def _exit_on_signal(_signal: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # a second signal must not interrupt the shutdown
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


def _has_logged(server: Server, word: str) -> bool:
    return word in read_text(server.log)


class _Service:
    """A service that is restarted when it ends. The delay doubles, unless the service ran for LASTING_SECONDS."""

    def __init__(self, stack: Stack, name: str, start_service: Callable[[str], Server]) -> None:
        self._stack, self._name, self._start_service = stack, name, start_service
        self._start_time = self._due = time.monotonic()
        self._delay = RESTART_SECONDS
        self.server: Server | None = stack.add(start_service(name))

    def watch(self) -> None:
        """Restart the service if it has ended and its delay is over."""
        now = time.monotonic()
        if self.server is None:
            if now >= self._due:
                self._start_time = now
                self.server = self._stack.add(self._start_service(self._name))
        elif self.server.process.poll() is not None:
            self._stack.remove(self.server)
            self._delay = RESTART_SECONDS if now - self._start_time > LASTING_SECONDS else self._delay
            self._stack.report(
                f"{self.server.crash_error('ended unexpectedly').line}; restarting it in {self._delay:g} s"
            )
            self.server, self._due = None, now + self._delay
            self._delay = min(2 * self._delay, MAX_RESTART_SECONDS)


def _watch(stack: Stack, services: Sequence[_Service]) -> None:
    while True:
        time.sleep(POLL_SECONDS)
        crashed_server = stack.crashed_server()
        if crashed_server:
            raise crashed_server.crash_error("ended unexpectedly")
        for service in services:
            service.watch()


def _start_service(home: Home, addresses: Addresses, name: str) -> Server:
    command = program(name, *OPTIONS.get(name, ()))
    environment = {**addresses.environment(), **import_path(), HOME_VARIABLE: str(home.root)}
    server = start(name, command, home.log(name), marker=f"noetl_temporal.cli {name}", environment=environment)
    return server._replace(service=True)


def _migrate_event_log(addresses: Addresses) -> None:
    from noetl_temporal.mirror.migrations import migrate

    asyncio.run(migrate(addresses.postgres))
