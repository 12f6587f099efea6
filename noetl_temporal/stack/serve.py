"""Keep a folder's stack up: own it, run a worker and a mirror beside it, start those again when they end."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.fall import note_fall
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.own import Stack, own
from noetl_temporal.stack.process import Server, start

__all__ = ["serve"]

SERVICES = {"worker": "serving", "mirror": "mirroring"}
"""A service is ready when its log has this word."""

OPTIONS = {"worker": ("--grace", "3")}
"""Of a service's command. The stack ends with its worker, so nobody waits for calls."""
POLL_SECONDS = 0.2
RESTART_SECONDS = 1.0


def serve(home: Home) -> None:
    """Own the stack until SIGTERM or SIGINT. Raises StackError when a server ends by itself, and notes why."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    try:
        _serve(home)
    except BusyError:
        raise
    except StackError as error:
        note_fall(home, error)
        raise


def _serve(home: Home) -> None:
    with own(home, "dev") as (stack, addresses):
        _migrate(addresses)
        services = {name: stack.add(_service(home, addresses, name)) for name in SERVICES}
        for name, server in services.items():
            server.wait_ready(partial(_says, server, SERVICES[name]))
        home.fall.unlink(missing_ok=True)
        addresses.write(home.stack)
        _watch(stack, services, lambda name: _service(home, addresses, name))


def _leave(_signal: int, _frame: FrameType | None) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):  # a second one must not break off the stopping of the servers
        signal.signal(number, signal.SIG_IGN)
    sys.exit(0)


def _says(server: Server, word: str) -> bool:
    return word in server.log.read_text(errors="replace")


def _watch(stack: Stack, services: dict[str, Server], again: Callable[[str], Server]) -> None:
    while True:
        time.sleep(POLL_SECONDS)
        fallen = stack.fallen()
        if fallen:
            raise fallen.fell("ended by itself")
        for name, server in services.items():
            if server.process.poll() is not None:
                stack.remove(server)
                stack.tell(f"{server.fell('ended by itself').line}; starting it again")
                time.sleep(RESTART_SECONDS)
                services[name] = stack.add(again(name))


def _service(home: Home, addresses: Addresses, name: str) -> Server:
    command = [sys.executable, "-m", "noetl_temporal.cli", name, *OPTIONS.get(name, ())]
    environment = {"NOETL_CREDENTIALS": str(home.credentials)} if home.credentials.exists() else {}
    environment |= addresses.environment()
    started = start(name, command, home.log(name), marker=f"noetl_temporal.cli {name}", environment=environment)
    return started._replace(service=True)


def _migrate(addresses: Addresses) -> None:
    from noetl_temporal.mirror.migrations import migrate

    asyncio.run(migrate(addresses.postgres))
