"""Own a folder's stack: start both servers, stop them at the end."""

from __future__ import annotations

import os
from collections.abc import Generator
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
    """The processes this one owns: the two servers, and what is added to them."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self._servers: list[Server] = []
        self._added: list[Server] = []
        self._guard = Guard()

    def start(self, mode: Literal["dev", "run"]) -> Addresses:
        """Start both servers, on other ports when one is taken between choosing it and listening on it."""
        for _ in range(TRIES - 1):
            try:
                return self._start_once(mode)
            except StackError as error:
                if "address already in use" not in str(error).lower():
                    raise
                stop(self._servers)
                self._servers.clear()
        return self._start_once(mode)

    def add(self, server: Server) -> Server:
        """Have ``server`` ended with the others, and before them."""
        self._added = [one for one in self._added if one.process.poll() is None]
        return self._keep(server, self._added)

    def fallen(self) -> Server | None:
        """A server that has ended by itself, None while both run."""
        return next((server for server in self._servers if server.process.poll() is not None), None)

    def stop(self) -> None:
        """End everything; what was added first, while its servers still answer."""
        stop(self._added)
        stop(self._servers)
        self.home.servers.unlink(missing_ok=True)
        self._guard.dismiss()

    def _keep(self, server: Server, among: list[Server]) -> Server:
        among.append(server)
        self._guard.watch(server)
        record(self.home.servers, [*self._servers, *self._added])
        return server

    def _start_once(self, mode: Literal["dev", "run"]) -> Addresses:
        ports = {name: free_port(port if mode == "dev" else 0) for name, port in PREFERRED.items()}
        temporal = self._keep(start_temporal(self.home, ports["temporal"], ports["ui"]), self._servers)
        postgres = self._keep(start_postgres(self.home, ports["postgres"]), self._servers)
        temporal.wait_ready(lambda: temporal_ready(ports["temporal"], ports["ui"]))
        postgres.wait_ready(lambda: postgres_ready(ports["postgres"]))
        return Addresses(
            pid=os.getpid(),
            mode=mode,
            temporal=f"127.0.0.1:{ports['temporal']}",
            ui=f"http://127.0.0.1:{ports['ui']}",
            postgres_port=ports["postgres"],
            postgres_password=self.home.password(),
        )


@contextmanager
def own(home: Home, mode: Literal["dev", "run"]) -> Generator[tuple[Stack, Addresses]]:
    """Start the stack of ``home`` and stop it at the end. Raises BusyError or StackError.

    Nobody joins before its addresses are written to ``home.stack``."""
    with home.owner_lock():
        home.stack.unlink(missing_ok=True)
        end_leftovers(home.servers)
        stack = Stack(home)
        try:
            yield stack, stack.start(mode)
        finally:
            home.stack.unlink(missing_ok=True)
            stack.stop()
