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
from noetl_temporal.stack.files import UnsafeFileError, open_log, read_text, replace_text, write_atomically
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.identity import identity
from noetl_temporal.stack.leftovers import end_leftovers, recorded_processes
from noetl_temporal.stack.locks import hold_lock, is_locked

__all__ = ["CLASS"]

SECRET = "canary-4711"
ADDRESSES = json.dumps(
    {
        "pid": 2, "mode": "dev", "temporal": SECRET, "temporal_pid": 2, "ui": "", "ports": [], "sockets": "",
        "postgres_port": 1, "postgres_password": "", "playbooks_password": "", "reader_password": "",
        "signing_key_file": "",
    }
)  # fmt: skip
"""The content of a victim file: a reader that trusts it reveals the secret."""

NOTE = json.dumps([[2**22 - 1, SECRET, True, 0, "1"]])
NAMES = ("stack.json", "servers.json", "postgres.log", "temporal.log", "postgres.password", "owner.lock", "crash.txt")
ANOTHER_UID = 65534


class Place(NamedTuple):
    """``path`` is the file in the stack's folder that is used, ``victim`` and ``absent`` lie outside of it."""

    folder: Path
    path: Path
    victim: Path
    absent: Path

    def outside(self) -> tuple[str, int, bool]:
        """Return the state outside, which no use of the stack's folder may change."""
        return self.victim.read_text(), stat.S_IMODE(self.victim.stat().st_mode), self.absent.exists()


# ---- traps ---------------------------------------------------------------------------------------------------------


def _forged(place: Place, mode: int = 0o600) -> None:
    place.path.write_text(place.victim.read_text())
    place.path.chmod(mode)


def _foreign(place: Place) -> None:
    _forged(place)
    os.chown(place.path, ANOTHER_UID, -1)


def _in_a_folder_of(mode: int, place: Place) -> None:
    _forged(place)
    place.folder.chmod(mode)


def _in_a_foreign_folder(place: Place) -> None:
    _forged(place)
    os.chown(place.folder, ANOTHER_UID, -1)


def _in_a_linked_folder(place: Place) -> None:
    real = place.folder.with_name("real")
    place.folder.rename(real)
    place.folder.symlink_to(real)
    _forged(place)


def _link_to_a_link(place: Place) -> None:
    between = place.folder.with_name("between")
    between.symlink_to(place.victim)
    place.path.symlink_to(between)


def _socket(place: Place) -> None:
    """Bound relative to its folder, as a socket's path is short."""
    descriptor = os.open(place.folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"/proc/self/fd/{descriptor}/{place.path.name}" if Path("/proc/self").exists() else str(place.path))
    os.close(descriptor)


TRAPS: dict[str, Callable[[Place], object]] = {
    "a link": lambda place: place.path.symlink_to(place.victim),
    "a relative link": lambda place: place.path.symlink_to(f"../{place.victim.name}"),
    "a link to a link": _link_to_a_link,
    "a link to nothing": lambda place: place.path.symlink_to(place.absent),
    "a link to a device": lambda place: place.path.symlink_to("/dev/zero"),
    "a link to the environment": lambda place: place.path.symlink_to("/proc/self/environ"),
    "a hard link": lambda place: place.path.hardlink_to(place.victim),
    "a pipe": lambda place: os.mkfifo(place.path),
    "a socket": _socket,
    "a file that the group may write": lambda place: _forged(place, 0o660),
    "a file that all may write": lambda place: _forged(place, 0o606),
    "a folder that the group may write": partial(_in_a_folder_of, 0o770),
    "a folder that all may write": partial(_in_a_folder_of, 0o1777),
    "a folder that is a link": _in_a_linked_folder,
}
FOREIGN: dict[str, Callable[[Place], object]] = {
    "a file of another user": _foreign,
    "a folder of another user": _in_a_foreign_folder,
}
"""Only root can lay them."""


# ---- uses of files -------------------------------------------------------------------------------------------------


class Use(NamedTuple):
    """What the stack does with a file, and what a program does that trusts its folder. What they read is returned."""

    guarded: Callable[[Path], object]
    plain: Callable[[Path], object]


def _write_log(path: Path) -> None:
    with open_log(path) as log:
        log.write("written")


def _write_plainly(path: Path) -> None:
    path.write_text("written")


def _prepared(path: Path) -> str:
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


def _replaced(path: Path) -> None:
    replace_text(path, "written")


USES: dict[str, Use] = {
    "read": Use(read_text, Path.read_text),
    "logged to": Use(_write_log, _write_plainly),
    "written": Use(_write_guarded, _write_plainly),
    "prepared": Use(_prepared, Path.read_text),
    "addresses": Use(Addresses.read, Path.read_text),
    "password": Use(_password, Path.read_text),
    "locked": Use(_lock_and_truncate, _truncate),
    "asked for a lock": Use(_is_locked, _open_plainly),
    "processes": Use(recorded_processes, Path.read_text),
    "a draft replaced": Use(_replaced, _write_plainly),
}
A_PERSONS = ("a draft replaced",)
"""May lie in a shared folder, and belong to a group: only what leads elsewhere is an attack on it."""


class _Guard:
    """The check of a file before it is used."""

    is_on = True


def _attack(trap: str, use: str, name: str) -> Attack:
    return Attack(f"{name} is {trap}, {use}", partial(_gets_through, trap, use, name))


def _gets_through(trap: str, use: str, name: str) -> bool:
    """Whether anything outside of the folder was changed, or believed."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root, "stack")
        folder.mkdir(mode=0o700)
        place = Place(folder, folder / _file_of(use, name), Path(root, "victim"), Path(root, "absent"))
        place.victim.write_text(NOTE if use == "processes" else ADDRESSES)
        {**TRAPS, **FOREIGN}[trap](place)
        before = place.outside()
        answer: object = ""
        with suppress(UnsafeFileError, StackError):
            answer = USES[use].guarded(place.path) if _Guard.is_on else USES[use].plain(place.path)
        return place.outside() != before or SECRET in str(answer)


def _file_of(use: str, name: str) -> str:
    return "postgres.password" if use == "password" else name


# ---- process records -----------------------------------------------------------------------------------------------

PROCESSES = ("this process", "its parent", "init", "all", "its group", "a number", "a text")


def _forged_record(chance: random.Random) -> Attack:
    """A process record whose process has been replaced, or never existed."""
    process = chance.choice(PROCESSES)
    changed = chance.choice((("uid", 4_000_000), ("uid", -1), ("started", "1"), ("marker", "noetl.home=/nowhere")))
    wanted = chance.choice((True, False, None, "yes"))
    return Attack(f"a note of {process} with {changed[0]} {changed[1]}, {wanted}", partial(_signals, process, changed))


def _signals(process: str, changed: tuple[str, object]) -> bool:
    """Whether a signal would be sent. None is, as one may mean every process there is."""
    pid: Any = {
        "this process": os.getpid(), "its parent": os.getppid(), "init": 1, "all": -1, "its group": 0,
        "a number": 2**70, "a text": "2",
    }[process]  # fmt: skip
    known = identity(pid) if isinstance(pid, int) and 1 < pid < 2**31 else None
    record = {"pid": pid, "marker": "python", "service": True}
    record |= {
        "uid": known.uid if known else os.getuid(),
        "started": known.start_time if known else "1",
        changed[0]: changed[1],
    }
    sent: list[tuple[int, int]] = []

    def send(pid: int, how: int) -> None:
        sent.append((pid, how))

    with tempfile.TemporaryDirectory() as folder, patch.object(os, "kill", send), patch.object(os, "killpg", send):
        note = Path(folder, "servers.json")
        write_atomically(note, json.dumps([list(record.values())]))
        if _Guard.is_on:
            end_leftovers(note)
        else:
            os.kill(json.loads(note.read_text())[0][0], 9)
    return bool(sent)


def _attacks(chance: random.Random, count: int) -> Iterator[Attack]:
    """A fifth of them are notes; of the others each trap in turn."""
    traps = [*TRAPS, *(FOREIGN if os.geteuid() == 0 else ())]
    for index in range(count):
        if index % 5 == 4:
            yield _forged_record(chance)
            continue
        trap = traps[index % len(traps)]
        others = trap.startswith(("a file", "a folder"))
        yield _attack(
            trap, chance.choice([use for use in USES if not (others and use in A_PERSONS)]), chance.choice(NAMES)
        )


def _unguarded() -> AbstractContextManager[object]:
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
    _unguarded,
)
