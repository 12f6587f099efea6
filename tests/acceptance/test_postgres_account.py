"""As root, the accounts that Postgres and initdb run as, and the files of the cluster."""

from __future__ import annotations

import grp
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl_activities.isolation.accounts import FIRST_ACCOUNT
from noetl_temporal.stack import server_account
from noetl_temporal.stack.change_owner import change_owner
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import UnsafeFileError
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import Stack, owned_stack
from noetl_temporal.stack.process import Account, Server
from noetl_temporal.stack.server_account import server_accounts
from tests.acceptance import nobody
from tests.acceptance.site import NOETL, ROOT, Site

pytestmark = [
    pytest.mark.stack,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root gives Postgres another account"),
]

NOBODY = pwd.getpwnam("nobody")
MOST_PROCESSES = 1 << 22
"""The greatest id of a process on Linux."""
REFUSALS = dict.fromkeys(nobody.ATTEMPTS, "PermissionError")


def attempt_as(uid: int, gid: int, pid: int) -> dict[str, str]:
    """What came of all that ``nobody`` tries with the process ``pid``, as this account."""
    command = [sys.executable, "-P", str(Path(nobody.__file__)), str(uid), str(gid), str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    report: dict[str, str] = json.loads(done.stdout)
    return report


def postmaster(home: Home) -> int:
    return int((home.postgres_folder / "data/postmaster.pid").read_text().split()[0])


def owners(folder: Path) -> set[tuple[int, int]]:
    """The accounts and groups of all that lies in a folder, and of itself."""
    statuses = [path.lstat() for path in (folder, *folder.rglob("*"))]
    return {(status.st_uid, status.st_gid) for status in statuses}


def test_the_account_nobody_reaches_neither_the_server_nor_its_cluster(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    with owned_stack(home, "run"):
        server = postmaster(home)
        assert attempt_as(NOBODY.pw_uid, NOBODY.pw_gid, server) == REFUSALS
        [(uid, gid)] = owners(home.postgres_folder / "data")
        assert attempt_as(uid, gid, server) == dict.fromkeys(nobody.ATTEMPTS, "done")


def test_the_account_nobody_cannot_access_a_cluster_during_initdb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``initdb`` has the uid of ``nobody``, so others of it may send it signals; its group keeps them from the rest."""
    attempts = during_initdb(monkeypatch, lambda pid: attempt_as(NOBODY.pw_uid, NOBODY.pw_gid, pid))
    with owned_stack(Home(tmp_path / "home"), "run"):
        assert attempts == [REFUSALS | {"reload": "done"}]


def during_initdb(monkeypatch: pytest.MonkeyPatch, look: Callable[[int], dict[str, str]]) -> list[dict[str, str]]:
    """What ``look`` finds of the process of ``initdb`` before it is let go."""
    attempts: list[dict[str, str]] = []
    add = Stack.add

    def look_and_add(stack: Stack, server: Server) -> Server:
        if server.name == "initdb":
            attempts.append(look(server.process.pid))
        return add(stack, server)

    monkeypatch.setattr(Stack, "add", look_and_add)
    return attempts


def test_its_account_differs_from_those_of_tasks() -> None:
    accounts = server_accounts()
    tasks = range(FIRST_ACCOUNT, FIRST_ACCOUNT + MOST_PROCESSES + 1)
    assert accounts.server.uid not in {*tasks} | {account.pw_uid for account in pwd.getpwall()}
    assert accounts.server.gid == accounts.initdb.gid not in {*tasks} | {group.gr_gid for group in grp.getgrall()}


# ---- the files that initdb creates -----------------------------------------------------------------------------------


SERVER = Account(54_322, 54_322)


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    """Folders and files of ``nobody``, as ``initdb`` creates them."""
    folder = tmp_path / "cluster"
    (folder / "base/1").mkdir(parents=True)
    for name in ("PG_VERSION", "base/1/112"):
        (folder / name).touch()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)
    return folder


def test_a_cluster_is_given_to_the_server(cluster: Path) -> None:
    change_owner(cluster, NOBODY.pw_uid, SERVER)
    assert owners(cluster) == {SERVER}


def link(path: Path, outside: Path) -> None:
    path.symlink_to(outside)


def hard_link(path: Path, outside: Path) -> None:
    os.chown(outside, NOBODY.pw_uid, NOBODY.pw_gid)
    path.hardlink_to(outside)


def fifo(path: Path, outside: Path) -> None:
    del outside
    os.mkfifo(path)
    os.chown(path, NOBODY.pw_uid, NOBODY.pw_gid)


@pytest.mark.parametrize(("plant", "expected"), [(link, "a link"), (hard_link, "a hard link"), (fifo, "a pipe")])
def test_only_regular_files_are_given_to_the_server(
    cluster: Path, tmp_path: Path, plant: Callable[[Path, Path], None], expected: str
) -> None:
    outside, planted_link = tmp_path / "outside", cluster / "base/planted"
    outside.touch()
    plant(planted_link, outside)
    os.chown(planted_link, NOBODY.pw_uid, NOBODY.pw_gid, follow_symlinks=False)
    before = outside.stat()
    with pytest.raises(UnsafeFileError, match=f"it is {expected}"):
        change_owner(cluster, NOBODY.pw_uid, SERVER)
    assert (outside.stat().st_uid, outside.stat().st_ctime_ns) == (before.st_uid, before.st_ctime_ns)


def test_files_of_another_account_keep_their_owner(cluster: Path) -> None:
    other_file = cluster / "base/other"
    other_file.touch()
    os.chown(other_file, 54_321, 54_321)
    change_owner(cluster, NOBODY.pw_uid, SERVER)
    assert other_file.stat().st_uid == 54_321


def test_a_cluster_of_another_account_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.prepare()
    data = home.postgres_folder / "data"
    data.mkdir()
    os.chown(data, 54_321, 54_321)
    with pytest.raises(StackError, match="belongs to another user"), owned_stack(home, "run"):
        pass


# ---- other machines ------------------------------------------------------------------------------------------------


WITHOUT_PTRACE = "import ctypes, os, sys; ctypes.CDLL(None).prctl(24, 19); os.execv(sys.argv[1], sys.argv[1:])"
"""Drops CAP_SYS_PTRACE from what the program that follows may have, as containers do."""


def test_root_of_a_container_finds_its_server(bare: Site) -> None:
    """It sees no open files of another account's process."""
    command = [sys.executable, "-c", WITHOUT_PTRACE, *NOETL, "run", str(ROOT / "dev/examples/hello.yaml")]
    done = subprocess.run(command, cwd=bare.folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "completed in" in done.stdout


def test_a_container_with_few_accounts_has_one_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("uid", "gid"):
        (tmp_path / f"{kind}_map").write_text("         0     100000      65536\n")
    monkeypatch.setattr(server_account, "PROC_SELF", tmp_path)
    accounts = server_accounts()
    assert accounts.server == (65_533, 65_533)
    (tmp_path / "gid_map").write_text("0 100000 100\n")
    with pytest.raises(StackError, match="there is no account 1895825408 or 65533: run noetl as another user"):
        server_accounts()
