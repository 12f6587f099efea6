"""What others on the machine, hostile playbooks and files in the stack's folder get from the stack: nothing."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import asyncpg
import httpx
import pytest

from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.stack import owner, temporal
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.listening import listening_ports
from noetl_temporal.stack.owner import Stack, owned_stack
from noetl_temporal.stack.postgres_location import locate_postgres
from noetl_temporal.stack.process import free_port
from noetl_temporal.stack.use import running_stack
from tests.acceptance.processes import wait_until
from tests.acceptance.test_stack import OWNER, server_pids

pytestmark = pytest.mark.stack

PROC = pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks at /proc")
ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="takes on another account")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / ".noetl")


class Impostor:
    """Takes a port, calls itself Postgres and asks for the password in clear, as a libpq client then sends it."""

    def __init__(self, listener: socket.socket) -> None:
        self.port: int = listener.getsockname()[1]
        self.received = b""
        self._listener = listener

    def serve(self) -> None:
        """Until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                with client, suppress(OSError):
                    self._talk(client)

    def _talk(self, client: socket.socket) -> None:
        client.settimeout(5)
        data = client.recv(1000)
        if len(data) == 8:  # for TLS, or for GSS: neither
            client.sendall(b"N")
            data = client.recv(1000)
        client.sendall(b"R\0\0\0\x08\0\0\0\x03")
        self.received += client.recv(1000)


@contextmanager
def impostor() -> Generator[Impostor]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        impostor = Impostor(listener)
        threading.Thread(target=impostor.serve, daemon=True).start()
        yield impostor


def test_a_process_on_the_port_of_postgres_gets_no_password(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    with impostor() as listener:
        chosen_ports = itertools.chain([listener.port], itertools.repeat(0))

        def choose(preferred_port: int = 0) -> int:
            return (
                next(chosen_ports) or free_port()
                if preferred_port == owner.PREFERRED_PORTS["postgres"]
                else free_port()
            )

        monkeypatch.setattr(owner, "free_port", choose)
        with home.owner_lock("dev"):
            stack = Stack(home, lambda _line: None)
            try:
                assert stack.start("dev").postgres_port != listener.port
            finally:
                stack.stop()
        assert listener.received == b""


def test_control_without_the_guard_a_server_gets_the_password() -> None:
    """The control of the test above."""
    with impostor() as listener:
        command = [
            str(locate_postgres().binaries / "psql"),
            "-h",
            "127.0.0.1",
            "-p",
            str(listener.port),
            "-U",
            "a",
            "-c",
            "SELECT 1",
            "a",
        ]
        subprocess.run(command, env={"PGPASSWORD": "hush"}, capture_output=True, check=False, timeout=20)
        assert b"hush" in listener.received


@PROC
def test_a_process_on_the_port_of_temporal_is_not_used(home: Home) -> None:
    """Its owner notices the end of Temporal a moment later; this one never does."""
    with subprocess.Popen([sys.executable, "-c", OWNER, str(home.root)], stdout=subprocess.PIPE, text=True) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == "ready\n"
            addresses = running_stack(home)
            assert addresses is not None
            os.kill(addresses.temporal_pid, signal.SIGKILL)
            assert wait_until(lambda: not listening_ports(addresses.temporal_pid))
            with socket.socket() as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                assert wait_until(lambda: listens_at(listener, addresses.temporal_port))
                assert running_stack(home) is None
        finally:
            owner.kill()


def listens_at(server: socket.socket, port: int) -> bool:
    """Whether it does from now on: a port is free again a moment after its process has ended."""
    with suppress(OSError):
        server.bind(("127.0.0.1", port))
        server.listen()
        return True
    return False


def test_two_stacks_that_want_the_same_ports_both_come_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has chosen them before the other listens."""
    wanted_ports = {name: free_port() for name in owner.PREFERRED_PORTS}
    chosen_ports = threading.Barrier(2, timeout=60)
    first = threading.local()

    def choose(preferred_port: int = 0) -> int:
        if preferred_port not in wanted_ports.values():
            return free_port()
        if not hasattr(first, "waited"):
            first.waited = chosen_ports.wait()
        return preferred_port

    def started(name: str) -> Addresses:
        home = Home(tmp_path / name)
        with home.owner_lock("dev"):
            stack = Stack(home, lambda _line: None)
            try:
                addresses = stack.start("dev")
                asyncio.run(migrate(addresses.postgres))
                chosen_ports.wait()
                return addresses
            finally:
                stack.stop()

    monkeypatch.setattr(owner, "PREFERRED_PORTS", wanted_ports)
    monkeypatch.setattr(owner, "free_port", choose)
    with ThreadPoolExecutor() as pool:
        first_stack, two = pool.map(started, ("one", "two"))
    assert not set(first_stack.ports) & set(two.ports)


HOSTS = ("127.0.0.1", "localhost", "", "*", "no host", "no%20host", "nohost", "a.example", "[::1]")


def answering(ports: set[int]) -> set[int]:
    """The ports whose HTTP API lists the namespaces, under any name of the host."""
    return {port for port in ports for host in HOSTS if b"default" in request_page(port, host)}


def request_page(port: int, host: str) -> bytes:
    """What the API answers; empty when nothing speaks HTTP there."""
    request = f"GET /api/v1/namespaces HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(request.encode())
        return b"".join(iter(lambda: connection.recv(65536), b""))
    return b""


@PROC
def test_the_http_api_of_temporal_is_disabled(servers: Addresses) -> None:
    ports = listening_ports(servers.temporal_pid)
    ui = int(servers.ui.rpartition(":")[2])
    assert wait_until(lambda: answering({ui}) == {ui}), "the UI asks Temporal only once that has let it connect"
    assert answering(ports) == {ui}
    assert httpx.get(servers.ui).status_code == 200
    assert httpx.get(f"{servers.ui}/api/v1/namespaces").status_code == 200


@PROC
def test_control_without_the_setting_the_http_api_of_temporal_is_enabled(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test above."""
    monkeypatch.delitem(temporal.DYNAMIC_CONFIG, "frontend.httpAllowedHosts")
    with owned_stack(home, "run") as (_, addresses):
        assert wait_until(lambda: len(answering(listening_ports(addresses.temporal_pid))) == 2)


@PROC
def test_tools_have_every_port_of_the_stack(home: Home) -> None:
    with owned_stack(home, "run") as (_, addresses):
        listened_ports = {port for pid in server_pids(home) for port in listening_ports(pid)}
        assert len(listened_ports) > 4
        assert {int(port) for port in addresses.environment()["NOETL_STACK_PORTS"].split(",")} == listened_ports


@PROC
def test_servers_get_nothing_of_the_users_environment(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SECRET_TOKEN", "PGOPTIONS", "PGPASSWORD", "TEMPORAL_API_KEY", "LD_PRELOAD", "NOETL_CREDENTIAL_X"):
        monkeypatch.setenv(name, "")
    of_the_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    with owned_stack(home, "run"):
        for pid in server_pids(home):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            names = {variable.partition(b"=")[0].decode() for variable in environment if variable}
            assert names - of_the_shell == {"PATH", "HOME", "LC_ALL", "TMPDIR"}


async def test_settings_in_a_foreign_cluster_are_not_applied(home: Home) -> None:
    with owned_stack(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.postgres)
        await connection.execute("""
            CREATE TABLE noetl.logins (at timestamptz);
            CREATE FUNCTION noetl.note() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
                AS 'BEGIN INSERT INTO noetl.logins VALUES (now()); END';
            CREATE EVENT TRIGGER note ON login EXECUTE FUNCTION noetl.note();
            ALTER EVENT TRIGGER note ENABLE ALWAYS;
            ALTER DATABASE noetl SET event_triggers = on;
            ALTER ROLE noetl SET session_preload_libraries = 'nowhere';
            GRANT pg_execute_server_program TO playbooks;
        """)
        await connection.close()
    data = home.postgres_folder / "data"
    hostile = "archive_mode = on\narchive_command = 'touch ran'\nlogging_collector = on\nevent_triggers = on\n"
    hostile += "restore_command = 'touch ran'\nshared_preload_libraries = 'nowhere'\narchive_timeout = 1\n"
    for name in ("postgresql.conf", "postgresql.auto.conf"):
        (data / name).write_text(hostile)
    (data / "pg_hba.conf").write_text("local all all trust\nhost all all all trust\n")
    (data / "standby.signal").touch()
    with owned_stack(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.postgres)
        assert await connection.fetchval("SELECT count(*) FROM noetl.logins") == 0
        assert await connection.fetchval("SELECT pg_is_in_recovery()") is False
        await connection.fetchval("SELECT pg_switch_wal()")
        assert not await connection.fetchval("SELECT count(*) FROM pg_auth_members WHERE member = 'playbooks'::regrole")
        await connection.close()
        for dsn in (addresses.postgres, addresses.postgres_tcp):
            with pytest.raises(asyncpg.InvalidPasswordError):
                await asyncpg.connect(dsn, password="wrong")
    assert not (data / "ran").exists()
    assert not (data / "log").exists()


LINKS = ["postgresql.conf", "postgresql.auto.conf", "pg_hba.conf", "pg_ident.conf", "standby.signal"]


def test_links_in_the_folder_of_postgres_are_not_followed(home: Home, tmp_path: Path) -> None:
    kept_file = tmp_path / "kept"
    kept_file.write_text("mine")
    home.prepare()
    home.postgres_folder.mkdir(exist_ok=True)
    for name in ("password.new", "password.new.new"):
        (home.postgres_folder / name).symlink_to(kept_file)
    with owned_stack(home, "run"):
        pass
    for name in LINKS:
        (home.postgres_folder / "data" / name).unlink(missing_ok=True)
        (home.postgres_folder / "data" / name).symlink_to(kept_file)
    with owned_stack(home, "run"):
        pass
    assert (kept_file.read_text(), kept_file.stat().st_uid) == ("mine", os.geteuid())


@pytest.mark.parametrize("name", ["data", "data.new"])
def test_a_folder_of_postgres_that_is_a_link_is_refused(home: Home, name: str, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    home.prepare()
    home.postgres_folder.mkdir(exist_ok=True)
    (home.postgres_folder / name).symlink_to(elsewhere)
    with pytest.raises(StackError, match="is not a folder"), owned_stack(home, "run"):
        pass
    assert elsewhere.exists()
    assert elsewhere.stat().st_uid == os.geteuid()


@ROOT
def test_no_other_account_reaches_the_socket(servers: Addresses) -> None:
    command = ["ls", f"{servers.socket_folder}/.s.PGSQL.{servers.postgres_port}"]
    assert subprocess.run(command, check=False).returncode == 0
    other = subprocess.run(command, check=False, user=23456, group=23456, extra_groups=[], capture_output=True)
    assert b"Permission denied" in other.stderr


def test_people_reach_the_socket_with_psql(servers: Addresses) -> None:
    done = subprocess.run(
        [locate_postgres().binaries / "psql", "-XAtc", "SELECT 7", servers.postgres],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "7\n", done.stderr


@pytest.fixture
def left(home: Home) -> Iterator[Path]:
    """The socket's folder of an owner that was killed."""
    home.prepare()
    with owned_stack(home, "run") as (_, addresses):
        folder = Path(addresses.socket_folder)
        note = (home.root / "socket.txt").read_text()
    folder.mkdir(mode=0o700)
    (folder / ".s.PGSQL.1").touch()
    (home.root / "socket.txt").write_text(note)
    yield folder
    assert not folder.exists()


def test_a_folder_of_a_socket_does_not_stay(home: Home, left: Path) -> None:
    with owned_stack(home, "run") as (_, addresses):
        assert addresses.socket_folder != str(left)
        assert Path(addresses.socket_folder).stat().st_mode & 0o777 == 0o700
        assert not left.exists()
    assert not Path(addresses.socket_folder).exists()
