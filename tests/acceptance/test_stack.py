"""The embedded stack: starts, is shared, survives its owner's death, leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import pytest

from noetl_temporal.stack.errors import BusyError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.leftovers import end_leftovers
from noetl_temporal.stack.own import own
from noetl_temporal.stack.process import free_port
from noetl_temporal.stack.use import running, use
from tests.acceptance.processes import alive, wait_until

pytestmark = pytest.mark.stack

OWNER = """
import sys, time
from pathlib import Path
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.own import own
home = Home(Path(sys.argv[1]))
with own(home, "run") as (_, addresses):
    addresses.write(home.stack)
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
    return [pid for pid, *_ in json.loads(home.servers.read_text())]


def listening(home: Home) -> bool:
    return home.servers.exists() and any(alive(pid) for pid in server_pids(home))


async def test_data_is_kept_and_no_process_is(home: Home) -> None:
    with own(home, "run") as (_, addresses):
        pids = server_pids(home)
        connection = await asyncpg.connect(addresses.postgres)
        await connection.execute("CREATE TABLE kept AS SELECT 7 AS seven")
        await connection.close()
    assert len(pids) == 2
    assert not any(alive(pid) for pid in pids)
    with own(home, "run") as (_, addresses):
        connection = await asyncpg.connect(addresses.postgres)
        assert await connection.fetchval("SELECT seven FROM kept") == 7
        await connection.close()
    assert not home.servers.exists()


async def test_postgres_wants_its_password(home: Home) -> None:
    with own(home, "run") as (_, addresses), pytest.raises(asyncpg.InvalidPasswordError):
        await asyncpg.connect(addresses.postgres, password="wrong")


def test_everything_listens_on_the_loopback_only(home: Home) -> None:
    with own(home, "run"):
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
    with pytest.raises(BusyError), own(home, "run"):
        pass
    assert owner.poll() is None


def test_a_second_run_joins_and_leaves_the_stack_up(home: Home, owner: subprocess.Popen[str]) -> None:
    with use(home, waiting=lambda: None) as used:
        assert not used.owned
        assert used.addresses.pid == owner.pid
        assert home.in_use()
    assert listening(home)


def test_a_killed_owner_takes_its_servers_along(home: Home, owner: subprocess.Popen[str]) -> None:
    pids = server_pids(home)
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    assert wait_until(lambda: not any(alive(pid) for pid in pids))
    assert running(home) is None, "the stale stack.json was believed"
    with use(home, waiting=lambda: None) as used:
        assert used.owned


def test_leftovers_of_a_killed_guard_are_ended_and_nothing_else(tmp_path: Path) -> None:
    with (
        subprocess.Popen(["sleep", "600"], start_new_session=True) as ours,
        subprocess.Popen(["sleep", "601"], start_new_session=True) as reused,
    ):
        note = tmp_path / "servers.json"
        note.write_text(
            json.dumps([[ours.pid, "sleep 600", False], [reused.pid, str(tmp_path / "temporal.db"), False]])
        )
        end_leftovers(note)
        assert ours.wait() == -signal.SIGINT
        assert reused.poll() is None
        assert not note.exists()
        reused.kill()


def test_a_port_that_is_taken_is_not_chosen() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert free_port(port) != port
    assert free_port(port) == port


def test_a_stale_postmaster_file_does_not_stop_a_start(home: Home) -> None:
    with own(home, "run"):
        pass
    data = home.postgres / "data"
    (data / "postmaster.pid").write_text(f"{os.getpid()}\n{data}\n1\n5432\n\n127.0.0.1\n1 1\nready\n")
    with own(home, "run") as (_, addresses):
        assert addresses.postgres_port


def test_a_first_start_that_was_interrupted_starts_over(home: Home) -> None:
    with own(home, "run"):
        pass
    data = home.postgres / "data"
    data.rename(data.with_name("data.new"))
    with own(home, "run") as (_, addresses):
        assert addresses.postgres_port
