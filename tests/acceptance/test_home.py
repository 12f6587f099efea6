"""The folder of a stack: where it is, who may use it, and who owns it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from noetl_temporal.stack import home as home_module
from noetl_temporal.stack import postgres_location
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.files import make_folder, write_atomically
from noetl_temporal.stack.home import Home, Owner
from noetl_temporal.stack.identity import identity
from noetl_temporal.stack.locks import hold_lock
from noetl_temporal.stack.stack_folders import stack_folder, stacks_folder
from noetl_temporal.stack.use import running_stack
from tests.acceptance.site import Site

ROOT = Path(__file__).parents[2]
HOLD = """
import fcntl, os, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX if sys.argv[2] == "ex" else fcntl.LOCK_SH)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path / "stack")
    home.prepare()
    return home


@contextmanager
def held(file: Path, mode: str = "ex") -> Generator[int]:
    """Another process, and no part of noetl, holds the lock of a file. Yields its id."""
    command = [sys.executable, "-c", HOLD, str(file), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process.pid
        process.kill()


def test_a_project_has_a_folder_in_the_users_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.delenv("NOETL_HOME", raising=False)
    project, link = tmp_path / "my project (1)", tmp_path / "link"
    project.mkdir()
    link.symlink_to(project)
    monkeypatch.chdir(link)
    root = Home().root
    assert root.parent == tmp_path / "data/noetl/stacks"
    assert root.name.startswith("my-project-1-")
    assert root == stack_folder(project) == stack_folder(link) == stack_folder(link / ".." / "my project (1)")
    assert stack_folder(tmp_path / "other/my project (1)") != root
    assert not root.exists(), "asking for the place made it"


def test_a_relative_data_folder_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be in the project."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for relative in ("", ".", "data", "~/data"):
        monkeypatch.setenv("XDG_DATA_HOME", relative)
        assert stacks_folder().is_relative_to(tmp_path / "home")
    monkeypatch.delenv("XDG_DATA_HOME")
    assert stacks_folder().is_relative_to(tmp_path / "home")


def test_a_project_name_cannot_leave_the_data_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name in ("..", "/", "-rf", "\x1b[31mred", "a\nb", "$(id)", "." * 50, "x" * 200, "caf\udce9", "ß"):
        folder = stack_folder(Path("/projects") / name)
        assert folder.parent == stacks_folder()
        assert folder.name.isascii()
        assert folder.name.isprintable()
        assert 16 <= len(folder.name) <= 57
        assert folder.name[0] not in "-."


def test_a_folder_names_its_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    home = Home()
    with home.owner_lock("run"):
        assert Home(home.root).recorded_project() == tmp_path.resolve()
    write_atomically(home.root / "project.json", "no json")
    assert Home(home.root).recorded_project() is None
    with home.owner_lock("run"):
        assert home.recorded_project() == tmp_path.resolve()
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "data").rglob("*")} == {0}


@pytest.mark.parametrize("trap", ["link", "open", "fifo"])
def test_a_folder_that_is_not_ours_alone_is_refused(trap: str, tmp_path: Path) -> None:
    root = tmp_path / "stack"
    make_folder(tmp_path / "theirs")
    if trap == "link":
        root.symlink_to(tmp_path / "theirs")
        message = "it is a link"
    elif trap == "open":
        root.mkdir()
        root.chmod(0o777)
        message = "other users can write to it"
    else:
        root.mkdir()
        os.mkfifo(root / "temporal.db")
        message = "temporal.db: it is a pipe"
    with pytest.raises(StackError, match=f"cannot use the folder {root}: {message}"), Home(root).owner_lock("run"):
        pytest.fail("it was used")
    assert list((tmp_path / "theirs").iterdir()) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_folder_of_another_user_is_reported_and_not_read(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    root = bare.folder / "theirs"
    make_folder(root)
    write_atomically(root / "stack.json", "{}")
    os.chown(root, 65534, -1)
    monkeypatch.setenv("NOETL_HOME", str(root))
    for command in (["dev", "up"], ["dev", "status"], ["dev", "down"], ["status"]):
        done = bare.noetl(*command)
        assert done.returncode == 1
        assert "it belongs to another user (uid 65534); set NOETL_HOME to a folder you own" in done.stderr


@pytest.mark.parametrize("name", ["stack.json", "servers.json", "owner.lock", "users.lock", "postgres.password"])
def test_a_link_in_the_folder_is_reported_and_not_followed(
    name: str, bare: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link as password file was shown by ``dev status``, one as a log was overwritten."""
    root, victim = bare.folder / "stack", bare.write("precious", "victim")
    make_folder(root)
    (root / name).symlink_to(victim)
    monkeypatch.setenv("NOETL_HOME", str(root))
    up = bare.noetl("dev", "up")
    assert up.returncode == 1
    assert f"{name}: it is a link" in up.stderr
    assert "precious" not in bare.noetl("dev", "status").stdout
    assert victim.read_text() == "precious"


def test_a_run_whose_stack_cannot_start_was_not_started(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit status 2, not the 1 of a playbook that failed."""
    playbook, root = ROOT / "dev/examples/hello.yaml", bare.folder / "stack"
    monkeypatch.setenv("NOETL_HOME", str(root))
    make_folder(root)
    (root / "owner.lock").symlink_to(bare.write("precious", "victim"))
    linked_result = bare.noetl("run", str(playbook))
    assert (linked_result.returncode, linked_result.stdout) == (2, "")
    assert "owner.lock: it is a link" in linked_result.stderr
    (root / "owner.lock").unlink()
    (root / "postgres").write_text("no folder")
    broken_result = bare.noetl("run", str(playbook))
    assert (broken_result.returncode, broken_result.stdout) == (2, "")
    assert str(root) in broken_result.stderr
    assert "bug" not in broken_result.stderr


def test_the_owner_is_distinguished_from_the_holder_of_the_lock(home: Home) -> None:
    with home.owner_lock("run"):
        assert home.owner() == Owner(os.getpid(), "run")
        message = rf"process {os.getpid()} \(`noetl run`\) owns the stack"
        with pytest.raises(BusyError, match=message), home.owner_lock("run"):
            pytest.fail("it was owned twice")
    assert home.owner() is None


@pytest.mark.parametrize("text", ["", "garbage", "-1 dev 1", "1 dev 1", "{pid} dev 1", "{pid} dev"])
def test_a_lock_of_another_program_is_not_trusted(home: Home, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_module, "OWNER_RECORD_SECONDS", 0.2)
    before = time.monotonic()
    with held(home.owner_lock_file) as holder:
        home.owner_lock_file.write_text(text.format(pid=holder))
        message = f"{home.owner_lock_file} is locked by a process that is not noetl"
        with pytest.raises(StackError, match=message):
            home.owner()
        with pytest.raises(BusyError, match=message), home.owner_lock("dev"):
            pytest.fail("it was owned")
        assert identity(holder), "the holder was ended"
    assert time.monotonic() - before < 60


def test_waiting_for_a_shared_lock_is_reported(home: Home) -> None:
    message = f"{home.owner_lock_file} is locked by a process that is not noetl"
    home.owner_lock_file.touch(mode=0o600)
    with held(home.owner_lock_file, "sh"), pytest.raises(BusyError, match=message), home.owner_lock("dev"):
        pytest.fail("it was owned")


def test_a_process_that_owns_the_folder_and_serves_no_stack_is_not_ended(
    bare: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(bare.folder / "stack")
    home.prepare()
    monkeypatch.setenv("NOETL_HOME", str(home.root))
    with held(home.owner_lock_file) as holder:
        started = identity(holder)
        assert started is not None
        home.owner_lock_file.write_text(f"{holder} dev {started.start_time}")
        down = bare.noetl("dev", "down")
        assert down.returncode == 1
        assert f"process {holder} holds {home.owner_lock_file}, and is not `noetl dev serve`" in down.stderr
        assert identity(holder) == started


def test_a_held_lock_delays_commands_only_for_a_limited_time(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(bare.folder / "stack")
    home.prepare()
    monkeypatch.setenv("NOETL_HOME", str(home.root))
    write_atomically(home.addresses_file, json.dumps({}))
    with held(home.owner_lock_file):
        commands = (["dev", "up"], ["dev", "down"], ["dev", "status"], ["status"])
        for process in [bare.start(*command) for command in commands]:
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 1
            assert f"{home.owner_lock_file} is locked by a process that is not noetl: end it (`fuser -v" in errors
            assert "Traceback" not in errors


def test_a_wait_is_reported_with_the_file(home: Home, capfd: pytest.CaptureFixture[str]) -> None:
    users = home.root / "users.lock"
    with held(users), pytest.raises(BlockingIOError), hold_lock(users, fcntl.LOCK_SH, 1.5):
        pytest.fail("it was locked")
    assert capfd.readouterr().err == f"waiting for the lock {home.root / 'users.lock'}\n"


def test_a_held_lock_keeps_the_copying_of_postgres_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_location, "COPIES", tmp_path)
    monkeypatch.setattr(postgres_location, "COPY_SECONDS", 0.5)
    installation = postgres_location._installation_folder()  # pyright: ignore[reportPrivateUsage]
    with (
        held(tmp_path / "copying.lock", "sh"),
        pytest.raises(StackError, match=r"copying\.lock: another process holds"),
    ):
        postgres_location._copy_programs(installation)  # pyright: ignore[reportPrivateUsage]


def test_a_file_that_was_removed_while_its_lock_was_held_is_another(home: Home) -> None:
    """The remedy in the message about a foreign lock: remove the file."""
    with held(home.owner_lock_file):
        home.owner_lock_file.unlink()
        with home.owner_lock("run"):
            assert home.owner() == Owner(os.getpid(), "run")
            assert home.owner_lock_file.stat().st_mode & 0o777 == 0o600, "another user can lock it"


def test_reading_the_state_of_a_stack_creates_no_folder(tmp_path: Path) -> None:
    home = Home(tmp_path / "stack")
    assert (home.owner(), home.is_in_use(), running_stack(home), home.recorded_project()) == (None, False, None, None)
    assert not home.root.exists()


def test_drafts_of_a_writer_that_was_killed_are_removed(home: Home) -> None:
    (home.root / ".stack.json.0123456789abcdef.new").write_text("half")
    with home.owner_lock("run"):
        assert not list(home.root.glob(".*.new"))


def test_a_password_is_made_once(home: Home) -> None:
    password = home.password("reader")
    assert password == home.password("reader") != home.password("playbooks")
    assert (home.root / "reader.password").stat().st_mode & 0o777 == 0o600


def test_a_missing_folder_is_reported(bare: Site) -> None:
    absent_site = Site(bare.folder / "gone")
    absent_site.folder.mkdir()
    script = f'rmdir "$PWD"; exec "{sys.executable}" -P -m noetl_temporal.cli dev status'
    done = subprocess.run(["sh", "-c", script], cwd=absent_site.folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "Error: the current folder was removed: change to another, or set NOETL_HOME\n",
    )
