"""Keeps the stack of a folder running: owns it, runs a worker and a mirror, and restarts them when they end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import NamedTuple

from noetl_activities.variables import HOME_VARIABLE
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.crash import record_crash
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.files import read_text
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import Stack, owned_stack
from noetl_temporal.stack.process import Server, start
from noetl_temporal.stack.program import import_path_variable, noetl_command

__all__ = ["serve"]

WORKER_GRACE_SECONDS = 10
"""How long the worker waits for calls in progress. Less than process.SERVICE_STOP_SECONDS, after which it is killed."""


class _ServiceCommand(NamedTuple):
    """A command of ``noetl`` that runs as a service. Its log contains ``ready_word`` once the service is ready."""

    name: str
    options: tuple[str, ...]
    ready_word: str


SERVICE_COMMANDS = (
    _ServiceCommand("worker", ("--grace", str(WORKER_GRACE_SECONDS)), "serving"),
    _ServiceCommand("mirror", (), "mirroring"),
)

POLL_SECONDS = 0.2
FIRST_RESTART_SECONDS = 1.0
MAX_RESTART_SECONDS = 30.0
"""How long to wait before a service is restarted. The delay doubles with each restart."""

STABLE_SECONDS = 60.0
"""A service that ran for longer than this is restarted after the first delay again."""


def serve(home: Home) -> None:
    """Own the stack until SIGTERM or SIGINT. Raises StackError if a server ends by itself, and records why."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _exit_on_signal)
    try:
        _run_stack(home)
    except BusyError:
        raise
    except StackError as error:
        record_crash(home, error)
        raise


def _exit_on_signal(_number: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # a second signal must not interrupt the shutdown
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


def _run_stack(home: Home) -> None:
    with owned_stack(home, "dev") as (stack, addresses):
        _migrate_event_log(addresses)
        services = [_Service(stack, partial(_start_service, home, addresses, command)) for command in SERVICE_COMMANDS]
        for service, command in zip(services, SERVICE_COMMANDS, strict=True):
            service.wait_ready(command.ready_word)
        home.crash_file.unlink(missing_ok=True)
        addresses.write(home.addresses_file)
        _supervise(stack, services)


def _migrate_event_log(addresses: Addresses) -> None:
    from noetl_temporal.mirror.migrations import migrate

    asyncio.run(migrate(addresses.postgres))


def _start_service(home: Home, addresses: Addresses, command: _ServiceCommand) -> Server:
    return start(
        command.name,
        noetl_command(command.name, *command.options),
        home.log(command.name),
        marker=f"noetl_temporal.cli {command.name}",
        environment={**addresses.environment(), **import_path_variable(), HOME_VARIABLE: str(home.root)},
        is_service=True,
    )


class _Service:
    """A service that is restarted when it ends. It has no process during the delay before a restart."""

    def __init__(self, stack: Stack, start_service: Callable[[], Server]) -> None:
        self._stack, self._start_service = stack, start_service
        self._delay = FIRST_RESTART_SECONDS
        self._start_time = self._restart_time = time.monotonic()
        self._process: Server | None = stack.add(start_service())

    def wait_ready(self, ready_word: str) -> None:
        """Wait until the log of the process contains ``ready_word``. Raises StackError."""
        process = self._process
        if process is not None:
            process.wait_ready(lambda: ready_word in read_text(process.log))

    def restart_if_ended(self) -> None:
        """Report the end of the process, and restart it when the delay is over."""
        now = time.monotonic()
        if self._process is None:
            if now >= self._restart_time:
                self._start_time = now
                self._process = self._stack.add(self._start_service())
        elif self._process.process.poll() is not None:
            self._schedule_restart(self._process, now)

    def _schedule_restart(self, ended_process: Server, now: float) -> None:
        self._stack.remove(ended_process)
        if now - self._start_time > STABLE_SECONDS:
            self._delay = FIRST_RESTART_SECONDS
        reason = ended_process.crash_error("ended unexpectedly").one_line
        self._stack.report(f"{reason}; restarting it in {self._delay:g} s")
        self._process, self._restart_time = None, now + self._delay
        self._delay = min(2 * self._delay, MAX_RESTART_SECONDS)


def _supervise(stack: Stack, services: Sequence[_Service]) -> None:
    """Restart services that end. Raises CrashedError if a server ends; never returns."""
    while True:
        time.sleep(POLL_SECONDS)
        crashed_server = stack.crashed_server()
        if crashed_server:
            raise crashed_server.crash_error("ended unexpectedly")
        for service in services:
            service.restart_if_ended()
