"""Traps in the folder of a stack: links, hard links, FIFOs, files of others, forged process records."""

from __future__ import annotations

import fcntl
import json
import os
import random
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from dev.attack.attack import Attack, AttackClass
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import UnsafeFileError, open_log, read_text, replace_user_file, write_atomically
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.identity import identity
from noetl_temporal.stack.leftovers import end_leftovers, recorded_processes
from noetl_temporal.stack.locks import hold_lock, is_locked

__all__ = ["CLASS"]

SECRET = "canary-4711"
ADDRESSES = json.dumps(
    {
        "owner_pid": 2, "mode": "dev", "temporal": SECRET, "temporal_pid": 2, "ui": "", "ports": [],
        "socket_folder": "", "postgres_port": 1, "postgres_password": "", "playbooks_password": "",
        "reader_password": "", "signing_key_file": "",
    }
)  # fmt: skip
"""The content of a victim file: a reader that trusts it reveals the secret."""

NOTE = json.dumps([[2**22 - 1, SECRET, True, 0, "1"]])
NAMES = ("stack.json", "servers.json", "postgres.log", "temporal.log", "postgres.password", "owner.lock", "crash.txt")
ANOTHER_UID = 65534


class StackPaths(NamedTuple):
    """``path`` is the file in the stack's folder that is used, ``victim`` and ``absent`` lie outside of it."""

    folder: Path
    path: Path
    victim: Path
    absent: Path

    def outside(self) -> tuple[str, int, bool]:
        """Return the state outside, which no use of the stack's folder may change."""
        return self.victim.read_text(), stat.S_IMODE(self.victim.stat().st_mode), self.absent.exists()


# ---- traps ---------------------------------------------------------------------------------------------------------


def _forge_file(paths: StackPaths, mode: int = 0o600) -> None:
    paths.path.write_text(paths.victim.read_text())
    paths.path.chmod(mode)


def _forge_foreign_file(paths: StackPaths) -> None:
    _forge_file(paths)
    os.chown(paths.path, ANOTHER_UID, -1)


def _in_a_folder_of(mode: int, paths: StackPaths) -> None:
    _forge_file(paths)
    paths.folder.chmod(mode)


def _in_a_foreign_folder(paths: StackPaths) -> None:
    _forge_file(paths)
    os.chown(paths.folder, ANOTHER_UID, -1)


def _in_a_linked_folder(paths: StackPaths) -> None:
    real = paths.folder.with_name("real")
    paths.folder.rename(real)
    paths.folder.symlink_to(real)
    _forge_file(paths)


def _link_to_a_link(paths: StackPaths) -> None:
    between = paths.folder.with_name("between")
    between.symlink_to(paths.victim)
    paths.path.symlink_to(between)


def _socket(paths: StackPaths) -> None:
    """Bound relative to its folder, as a socket's path is short."""
    descriptor = os.open(paths.folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{descriptor}/{paths.path.name}" if Path("/proc/self").exists() else str(paths.path))
    os.close(descriptor)


TRAPS: dict[str, Callable[[StackPaths], object]] = {
    "a link": lambda paths: paths.path.symlink_to(paths.victim),
    "a relative link": lambda paths: paths.path.symlink_to(f"../{paths.victim.name}"),
    "a link to a link": _link_to_a_link,
    "a link to nothing": lambda paths: paths.path.symlink_to(paths.absent),
    "a link to a device": lambda paths: paths.path.symlink_to("/dev/zero"),
    "a link to the environment": lambda paths: paths.path.symlink_to("/proc/self/environ"),
    "a hard link": lambda paths: paths.path.hardlink_to(paths.victim),
    "a pipe": lambda paths: os.mkfifo(paths.path),
    "a socket": _socket,
    "a file that the group may write": lambda paths: _forge_file(paths, 0o660),
    "a file that all may write": lambda paths: _forge_file(paths, 0o606),
    "a folder that the group may write": partial(_in_a_folder_of, 0o770),
    "a folder that all may write": partial(_in_a_folder_of, 0o1777),
    "a folder that is a link": _in_a_linked_folder,
}
FOREIGN: dict[str, Callable[[StackPaths], object]] = {
    "a file of another user": _forge_foreign_file,
    "a folder of another user": _in_a_foreign_folder,
}
"""Traps that only root can lay."""


# ---- uses of files -------------------------------------------------------------------------------------------------


class Use(NamedTuple):
    """A use of a file by the stack, and by a program that trusts its folder. Both return what they read."""

    with_guard: Callable[[Path], object]
    without_guard: Callable[[Path], object]


def _write_log(path: Path) -> None:
    with open_log(path) as log:
        log.write("written")


def _write_plainly(path: Path) -> None:
    path.write_text("written")


def _prepare(path: Path) -> str:
    """Check the folder, which is refused if it contains a trap."""
    Home(path.parent).prepare()
    return SECRET


def _password(path: Path) -> str:
    return Home(path.parent).password(path.stem)


def _lock_and_truncate(path: Path) -> None:
    with hold_lock(path, fcntl.LOCK_EX, 0):
        _truncate(path)


def _truncate(path: Path) -> None:
    os.truncate(path, 0)


def _is_locked(path: Path) -> bool:
    return is_locked(path, fcntl.LOCK_EX)


def _open_plainly(path: Path) -> None:
    path.open("r+").close()


def _write_guarded(path: Path) -> None:
    write_atomically(path, "written")


def _replace(path: Path) -> None:
    replace_user_file(path, "written")


USES: dict[str, Use] = {
    "read": Use(read_text, Path.read_text),
    "logged to": Use(_write_log, _write_plainly),
    "written": Use(_write_guarded, _write_plainly),
    "prepared": Use(_prepare, Path.read_text),
    "addresses": Use(Addresses.read, Path.read_text),
    "password": Use(_password, Path.read_text),
    "locked": Use(_lock_and_truncate, _truncate),
    "asked for a lock": Use(_is_locked, _open_plainly),
    "processes": Use(recorded_processes, Path.read_text),
    "a draft replaced": Use(_replace, _write_plainly),
}
OF_PEOPLE = ("a draft replaced",)
"""Uses of files that may be in a shared folder and belong to a group: for these, only links are attacks."""


class _Guard:
    """The check of a file before it is used."""

    is_on = True


def _attack(trap: str, use: str, name: str) -> Attack:
    return Attack(f"{name} is {trap}, {use}", partial(_gets_through, trap, use, name))


def _gets_through(trap: str, use: str, name: str) -> bool:
    """Whether a file outside the folder was changed, or its content used."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "stack")
        folder.mkdir(mode=0o700)
        paths = StackPaths(folder, folder / _file_of(use, name), Path(root, "victim"), Path(root, "absent"))
        paths.victim.write_text(NOTE if use == "processes" else ADDRESSES)
        {**TRAPS, **FOREIGN}[trap](paths)
        before = paths.outside()
        content: object = ""
        with suppress(UnsafeFileError, StackError):
            content = USES[use].with_guard(paths.path) if _Guard.is_on else USES[use].without_guard(paths.path)
        return paths.outside() != before or SECRET in str(content)


def _file_of(use: str, name: str) -> str:
    return "postgres.password" if use == "password" else name


# ---- process records -----------------------------------------------------------------------------------------------

PROCESSES = ("this process", "its parent", "init", "all", "its group", "a number", "a text")


def _forged_record(rng: random.Random) -> Attack:
    """A process record whose process has been replaced, or never existed."""
    process = rng.choice(PROCESSES)
    change = rng.choice((("uid", 4_000_000), ("uid", -1), ("started", "1"), ("marker", "noetl.home=/nowhere")))
    is_service = rng.choice((True, False, None, "yes"))
    return Attack(f"a note of {process} with {change[0]} {change[1]}, {is_service}", partial(_signals, process, change))


def _signals(process: str, change: tuple[str, object]) -> bool:
    """Whether a signal would be sent. It is not sent, as the process id may mean all processes."""
    pid: Any = {
        "this process": os.getpid(), "its parent": os.getppid(), "init": 1, "all": -1, "its group": 0,
        "a number": 2**70, "a text": "2",
    }[process]  # fmt: skip
    known_identity = identity(pid) if isinstance(pid, int) and 1 < pid < 2**31 else None
    record = {"pid": pid, "marker": "python", "is_service": True}
    record |= {
        "uid": known_identity.uid if known_identity else os.getuid(),
        "started": known_identity.start_time if known_identity else "1",
        change[0]: change[1],
    }
    signals: list[tuple[int, int]] = []

    def send(pid: int, signal_number: int) -> None:
        signals.append((pid, signal_number))

    with tempfile.TemporaryDirectory() as folder, patch.object(os, "kill", send), patch.object(os, "killpg", send):
        record_file = Path(folder, "servers.json")
        write_atomically(record_file, json.dumps([list(record.values())]))
        if _Guard.is_on:
            end_leftovers(record_file)
        else:
            os.kill(json.loads(record_file.read_text())[0][0], 9)
    return bool(signals)


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    """Yield a process record as each fifth attack, and the traps in turn."""
    traps = [*TRAPS, *(FOREIGN if os.geteuid() == 0 else ())]
    for index in range(count):
        if index % 5 == 4:
            yield _forged_record(rng)
            continue
        trap = traps[index % len(traps)]
        others = trap.startswith(("a file", "a folder"))
        yield _attack(trap, rng.choice([use for use in USES if not (others and use in OF_PEOPLE)]), rng.choice(NAMES))


def _disable_guard() -> AbstractContextManager[object]:
    return patch.object(_Guard, "is_on", False)


CLASS = AttackClass(
    "files",
    _attacks,
    (
        _attack("a link", "read", "stack.json"),
        _attack("a link", "logged to", "postgres.log"),
        _attack("a hard link", "written", "postgres.password"),
        _attack("a link to nothing", "written", "crash.txt"),
        _attack("a file that all may write", "addresses", "stack.json"),
        _attack("a folder that is a link", "password", "postgres.password"),
        Attack("a note of all processes", partial(_signals, "all", ("uid", 0))),
    ),
    _disable_guard,
)
