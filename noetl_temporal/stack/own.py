"""Own a folder's stack: start both servers, stop them at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.postgres import postgres_ready, start_postgres
from noetl_temporal.stack.process import Guard, Server, end_leftovers, free_port, record, stop
from noetl_temporal.stack.temporal import start_temporal, temporal_ready

__all__ = ["BusyError", "Stack", "StackError", "own"]

TRIES = 3
PREFERRED = {"temporal": 7233, "ui": 8233, "postgres": 15432}
"""The ports of a stack that stays: Temporal's own, so that its command line finds the server by itself."""


class Stack:
    """The servers this process owns."""

    def __init__(self, home: Home, addresses: Addresses, servers: list[Server]) -> None:
        self.home, self.addresses, self.servers = home, addresses, servers

    def publish(self) -> None:
        """Let others join."""
        self.addresses.write(self.home.stack)

    def failed(self) -> str | None:
        """The name of a server that has ended by itself, None while all run."""
        return next((server.name for server in self.servers if server.process.poll() is not None), None)


@contextmanager
def own(home: Home, mode: Literal["dev", "run"]) -> Iterator[Stack]:
    """Start the stack of ``home`` and stop it at the end. Raises BusyError, when it has an owner, or StackError."""
    with home.owner_lock():
        home.stack.unlink(missing_ok=True)
        end_leftovers(home.servers)
        guard, servers = Guard(), list[Server]()
        try:
            yield Stack(home, _start(home, mode, guard, servers), servers)
        finally:
            home.stack.unlink(missing_ok=True)
            stop(servers)
            home.servers.unlink(missing_ok=True)
            guard.dismiss()


def _start(home: Home, mode: Literal["dev", "run"], guard: Guard, servers: list[Server]) -> Addresses:
    """Start both servers, on other ports when one is taken between choosing it and listening on it."""
    for _ in range(TRIES - 1):
        try:
            return _start_once(home, mode, guard, servers)
        except StackError as error:
            if "address already in use" not in str(error).lower():
                raise
            stop(servers)
            servers.clear()
    return _start_once(home, mode, guard, servers)


def _start_once(home: Home, mode: Literal["dev", "run"], guard: Guard, servers: list[Server]) -> Addresses:
    ports = {name: free_port(port if mode == "dev" else 0) for name, port in PREFERRED.items()}

    def started(server: Server) -> Server:
        servers.append(server)
        guard.watch(server)
        record(home.servers, servers)
        return server

    temporal = started(start_temporal(home, ports["temporal"], ports["ui"]))
    postgres = started(start_postgres(home, ports["postgres"]))
    temporal.wait_ready(lambda: temporal_ready(ports["temporal"], ports["ui"]))
    postgres.wait_ready(lambda: postgres_ready(home, ports["postgres"]))
    return Addresses(
        pid=os.getpid(),
        mode=mode,
        temporal=f"127.0.0.1:{ports['temporal']}",
        ui=f"http://127.0.0.1:{ports['ui']}",
        postgres_port=ports["postgres"],
        postgres_password=home.password(),
    )
