"""The private folder with the data and state of a stack, one per project (``stack_folders.py``).

NOETL_HOME sets another folder. A folder is used only if no other account can have written to it (``files.py``).
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from noetl_activities.variables import HOME_VARIABLE
from noetl_temporal.stack.errors import BusyError, StackError
from noetl_temporal.stack.files import (
    DRAFT_SUFFIX,
    check_entries,
    check_folder,
    make_folder,
    read_text,
    write_atomically,
)
from noetl_temporal.stack.identity import identity
from noetl_temporal.stack.locks import ReportedWait, hold_lock, is_locked
from noetl_temporal.stack.stack_folders import real_path, stack_folder

__all__ = ["Home", "Mode", "Owner"]

Mode = Literal["dev", "run"]
"""A ``dev`` stack stays until ``noetl dev down``, a ``run`` stack ends with its run."""

OWNER_LOCK_SECONDS = 0.5
"""How long to wait for the owner's lock, which other processes hold for a moment when they check it."""

OWNER_RECORD_SECONDS = 5.0
"""How long to wait for an owner that has locked the file to write its process id, even on a busy machine."""

USERS_LOCK_SECONDS = 60.0
"""How long to wait for the users' lock, which the owner holds only for a moment, to check it."""


class Owner(NamedTuple):
    """The process that owns the stack of a folder."""

    pid: int
    mode: Mode


class Home:
    """The files of the folder, and its two locks. ``project`` is None if NOETL_HOME sets the folder."""

    def __init__(self, root: Path | None = None) -> None:
        folder = root or os.environ.get(HOME_VARIABLE)
        self.project = None if folder else real_path(Path())
        self.root = Path(folder).absolute() if folder else stack_folder(Path())
        self.addresses_file = self.root / "stack.json"
        self.processes_file = self.root / "servers.json"
        self.crash_file = self.root / "crash.txt"
        self.temporal_database = self.root / "temporal.db"
        self.postgres_folder = self.root / "postgres"
        self.owner_lock_file = self.root / "owner.lock"
        self.users_lock_file = self.root / "users.lock"
        self._project_file = self.root / "project.json"
        self._ports_file = self.root / "ports.json"

    def prepare(self) -> None:
        """Create the folder, or check that it and its entries belong to this account. Raises StackError."""
        try:
            make_folder(self.root)
            check_folder(self.root)
            check_entries(self.root)
            make_folder(self.postgres_folder)
        except OSError as error:
            raise StackError(self.describe_error(error) or str(error)) from error

    def describe_error(self, error: OSError) -> str | None:
        """Return the message for an error about this folder or an entry of it; None for other errors."""
        if not isinstance(error.filename, str) or not Path(error.filename).absolute().is_relative_to(self.root):
            return None
        relative_path = Path(error.filename).absolute().relative_to(self.root)
        reason = f"{error.strerror}" if relative_path == Path() else f"{relative_path}: {error.strerror}"
        return f"cannot use the folder {self.root}: {reason}; set {HOME_VARIABLE} to a folder you own"

    def recorded_project(self) -> Path | None:
        """Return the project that is recorded in the folder, if any. Raises OSError if the record is unsafe to read."""
        try:
            path = json.loads(read_text(self._project_file))
        except (FileNotFoundError, ValueError):
            return None
        return Path(path) if isinstance(path, str) else None

    def ports(self) -> dict[str, int]:
        """Return the ports of the last `noetl dev up`: server -> port; empty before the first."""
        try:
            content = json.loads(read_text(self._ports_file))
        except (FileNotFoundError, ValueError):
            return {}
        ports = cast("dict[str, Any]", content) if isinstance(content, dict) else {}
        return {name: port for name, port in ports.items() if isinstance(port, int) and 0 < port < 2**16}

    def record_ports(self, ports: Mapping[str, int]) -> None:
        """Store the ports for the next start of the stack."""
        write_atomically(self._ports_file, json.dumps(dict(ports)))

    def log(self, name: str) -> Path:
        """Return the path of the log of the process ``name``."""
        return self.root / f"{name}.log"

    def signing_key(self) -> Path:
        """Return the file with the key that signs this stack's runs (signing.py); it is created once."""
        self.password("signing")
        return self.root / "signing.password"

    def password(self, account: str) -> str:
        """Return the password of an account of the embedded Postgres, created once; only its owner can read it."""
        path = self.root / f"{account}.password"
        with suppress(FileNotFoundError):
            return read_text(path)
        write_atomically(path, secrets.token_hex(16))
        return read_text(path)

    @contextmanager
    def owner_lock(self, mode: Mode) -> Generator[None]:
        """Own the folder while the block runs. Raises BusyError if another process owns it, StackError."""
        self.prepare()
        owner_record = f"{os.getpid()} {mode} {_start_time(os.getpid())}".encode()
        with ExitStack() as exit_stack:
            try:
                descriptor = exit_stack.enter_context(
                    hold_lock(self.owner_lock_file, fcntl.LOCK_EX, OWNER_LOCK_SECONDS)
                )
            except BlockingIOError:
                raise BusyError(self.owner_message()) from None
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, owner_record, 0)
            self._remove_drafts()
            write_atomically(self.root / ".gitignore", "*\n")  # NOETL_HOME may name a folder in a project
            if self.project:
                write_atomically(self._project_file, json.dumps(str(self.project)))
            yield

    def owner(self) -> Owner | None:
        """Return the owner; None if there is none. Raises StackError if another program holds its lock."""
        wait = ReportedWait(lambda: f"waiting for the process that locked {self.owner_lock_file} to write its id")
        deadline = time.monotonic() + OWNER_RECORD_SECONDS
        while is_locked(self.owner_lock_file, fcntl.LOCK_SH):
            owner = self._recorded_owner()
            if owner:
                return owner
            if time.monotonic() > deadline:
                raise StackError(self._foreign_lock_message(self.owner_lock_file))
            wait.pause()
        return None

    def owner_message(self) -> str:
        """Return a message that names the owner of the folder."""
        if not is_locked(self.owner_lock_file, fcntl.LOCK_EX):
            return f"another process has just released the stack in {self.root}"
        owner = self._recorded_owner()
        if owner is None:
            return self._foreign_lock_message(self.owner_lock_file)
        command = "noetl dev up" if owner.mode == "dev" else "noetl run"
        return f"process {owner.pid} (`{command}`) owns the stack in {self.root}"

    @contextmanager
    def user_lock(self) -> Generator[None]:
        """Keep the owner from stopping the stack while the block runs. Raises StackError."""
        with ExitStack() as exit_stack:
            try:
                exit_stack.enter_context(hold_lock(self.users_lock_file, fcntl.LOCK_SH, USERS_LOCK_SECONDS))
            except BlockingIOError:
                raise StackError(self._foreign_lock_message(self.users_lock_file)) from None
            yield

    def is_in_use(self) -> bool:
        """Whether another process uses the stack."""
        return is_locked(self.users_lock_file, fcntl.LOCK_EX)

    def _recorded_owner(self) -> Owner | None:
        """Return the owner that the lock file names, if that process is running and wrote the file."""
        with suppress(FileNotFoundError, ValueError):
            pid, mode, start_time = read_text(self.owner_lock_file).split(maxsplit=2)
            if int(pid) > 1 and _start_time(int(pid)) == start_time:
                return Owner(int(pid), "dev" if mode == "dev" else "run")
        return None

    def _foreign_lock_message(self, file: Path) -> str:
        return (
            f"{file} is locked by a process that is not noetl: end it (`fuser -v {file}` shows it), "
            "or remove the file and try again"
        )

    def _remove_drafts(self) -> None:
        """Remove temporary files of writers that were killed. Only an owner writes."""
        for draft in self.root.glob(f".*{DRAFT_SUFFIX}"):
            draft.unlink(missing_ok=True)


def _start_time(pid: int) -> str | None:
    """Return when the process started; None if it is not running or belongs to another account."""
    running = identity(pid)
    return running.start_time if running and running.uid == os.getuid() else None
