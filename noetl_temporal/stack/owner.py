"""The owner of the stack of a folder, which starts both servers and stops them at the end."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from noetl_activities.variables import CREDENTIALS_VARIABLE
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.databases import accepts_login, set_up_databases
from noetl_temporal.stack.errors import CrashedError
from noetl_temporal.stack.guard import Guard
from noetl_temporal.stack.home import Home, Mode
from noetl_temporal.stack.leftovers import end_leftovers, record_processes
from noetl_temporal.stack.listening import listening_ports, listens
from noetl_temporal.stack.postgres import start_postgres
from noetl_temporal.stack.postgres_location import locate_postgres
from noetl_temporal.stack.process import Server, free_port, stop
from noetl_temporal.stack.socket_folder import make_socket_folder, remove_socket_folder
from noetl_temporal.stack.temporal import is_temporal_ready, start_temporal

__all__ = ["Stack", "owned_stack", "time_skipping_server"]

MAX_STARTS = 3
PREFERRED_PORTS = {"temporal": 7233, "ui": 8233, "postgres": 15432}
"""The ports of the first `noetl dev up`. Those of Temporal are its defaults, so that its command line finds the server.
Later starts reuse the ports of the previous one (Home.ports), so that bookmarks and TEMPORAL_ADDRESS stay valid.
"""


def _print_to_stderr(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


class Stack:
    """The processes of a stack: the two servers, and the services (worker and mirror)."""

    def __init__(self, home: Home, report: Callable[[str], None] = _print_to_stderr) -> None:
        self.home = home
        self.report = report
        self._servers: list[Server] = []
        self._services: list[Server] = []
        self._guard = Guard()

    def start(self, mode: Mode) -> Addresses:
        """Start both servers; retry on other ports if one of them ends while it starts.

        Another program may take a port after it was chosen, and two Temporal servers that start at the same time may
        choose the same internal port. Raises StackError; CrashedError after MAX_STARTS attempts.
        """
        ports = _choose_ports({**PREFERRED_PORTS, **self.home.ports()} if mode == "dev" else {})
        for attempt in range(2, MAX_STARTS + 1):
            try:
                return self._start_once(mode, ports)
            except CrashedError as crash_error:
                self.report(f"{crash_error.one_line}; restarting on other ports (attempt {attempt} of {MAX_STARTS})")
                stop(self._servers)
                self._servers.clear()
                ports = _choose_ports({})
        return self._start_once(mode, ports)

    def start_time_skipping_server(self) -> str:
        """Start Temporal with time skipping, and return its address. Raises CrashedError, StackError."""
        ports = _choose_ports({})
        server = self._record_and_release(
            start_temporal(self.home, ports["temporal"], ports["ui"], skips_time=True), self._servers
        )
        server.wait_ready(lambda: is_temporal_ready(self.home, server, ports["temporal"], ports["ui"]))
        return f"127.0.0.1:{ports['temporal']}"

    def add(self, server: Server) -> Server:
        """Start a service. Services are stopped before the servers."""
        return self._record_and_release(server, self._services)

    def remove(self, server: Server) -> None:
        """Remove a service that has ended."""
        self._services.remove(server)
        self._guard.forget(server)
        self._record_servers()

    def crashed_server(self) -> Server | None:
        """Return a server that has ended by itself; None while both are running."""
        return next((server for server in self._servers if server.process.poll() is not None), None)

    def stop(self) -> None:
        """Stop the services, then the servers."""
        stop(self._services)
        stop(self._servers)
        self._guard.dismiss()
        remove_socket_folder(self.home)
        self.home.processes_file.unlink(missing_ok=True)

    def _record_and_release(self, server: Server, servers: list[Server]) -> Server:
        """Add the process to ``servers`` and record it for a later owner, then start its program."""
        servers.append(server)
        self._guard.watch(server)
        self._record_servers()
        server.release()
        return server

    def _record_servers(self) -> None:
        record_processes(self.home.processes_file, [*self._servers, *self._services])

    def _run_to_end(self, server: Server) -> None:
        """Start a program and wait until it has ended. Raises CrashedError if it fails."""
        self.add(server)
        server.process.wait()
        self.remove(server)
        if server.process.returncode != 0:
            raise server.crash_error("failed")

    def _start_once(self, mode: Mode, ports: Mapping[str, int]) -> Addresses:
        temporal = self._record_and_release(start_temporal(self.home, ports["temporal"], ports["ui"]), self._servers)
        account, port = locate_postgres().account, ports["postgres"]
        socket_folder = make_socket_folder(self.home, locate_postgres())
        postgres = self._record_and_release(
            start_postgres(self.home, port, socket_folder, self._run_to_end), self._servers
        )
        temporal.wait_ready(lambda: is_temporal_ready(self.home, temporal, ports["temporal"], ports["ui"]))
        uid = account.uid if account else None
        postgres.wait_ready(
            lambda: listens(postgres.process.pid, port, uid) and accepts_login(self.home, socket_folder, port)
        )
        set_up_databases(self.home, socket_folder, port)
        if mode == "dev":
            self.home.record_ports(ports)
        return Addresses(
            owner_pid=os.getpid(),
            mode=mode,
            temporal=f"127.0.0.1:{ports['temporal']}",
            temporal_pid=temporal.process.pid,
            ui=f"http://127.0.0.1:{ports['ui']}",
            ports=tuple(sorted(listening_ports(temporal.process.pid) | {port})),
            socket_folder=str(socket_folder),
            postgres_port=port,
            postgres_password=self.home.password("postgres"),
            playbooks_password=self.home.password("playbooks"),
            reader_password=self.home.password("reader"),
            signing_key_file=str(self.home.signing_key()),
            credentials=os.environ.get(CREDENTIALS_VARIABLE, ""),
        )


def _choose_ports(preferred_ports: Mapping[str, int]) -> dict[str, int]:
    return {name: free_port(preferred_ports.get(name, 0)) for name in PREFERRED_PORTS}


@contextmanager
def owned_stack(home: Home, mode: Mode) -> Generator[tuple[Stack, Addresses]]:
    """Start the stack of ``home``, and stop it at the end of the block. Raises BusyError, StackError.

    Other processes can join the stack once the caller has written the addresses to ``home.addresses_file``.
    """
    with home.owner_lock(mode):
        home.addresses_file.unlink(missing_ok=True)
        end_leftovers(home.processes_file)
        stack = Stack(home)
        try:
            yield stack, stack.start(mode)
        finally:
            home.addresses_file.unlink(missing_ok=True)
            stack.stop()


@contextmanager
def time_skipping_server(home: Home) -> Generator[str]:
    """Start a Temporal server with time skipping, for tests of playbooks, and yield its address. Raises StackError.

    Other commands cannot join it.
    """
    with home.owner_lock("run"):
        stack = Stack(home)
        try:
            yield stack.start_time_skipping_server()
        finally:
            stack.stop()
