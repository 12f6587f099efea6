"""The folder that keeps the stack's data and state: ``.noetl`` here, or what NOETL_HOME names."""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, NamedTuple

from noetl_temporal.stack.errors import BusyError, StackError

__all__ = ["Home", "Mode", "Owner", "write_whole"]

Mode = Literal["dev", "run"]
"""A ``dev`` stack stays until ``noetl dev down``, a ``run`` stack ends with its run."""

LOCK_SECONDS = 0.5
POLL_SECONDS = 0.01


class Owner(NamedTuple):
    """The process that owns the folder."""

    pid: int
    mode: Mode


class Home:
    """Paths below the folder, and its two locks."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or Path(os.environ.get("NOETL_HOME") or ".noetl")).absolute()
        self.stack = self.root / "stack.json"
        self.servers = self.root / "servers.json"
        self.fall = self.root / "fall.txt"
        self.database = self.root / "temporal.db"
        self.postgres = self.root / "postgres"
        self.credentials = self.root / "credentials.yaml"

    def prepare(self) -> None:
        """Make the folder, out of git's sight. Raises StackError when it cannot be written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                write_whole(ignore, "*\n")
        except OSError as error:
            raise StackError(self.problem(error)) from error

    def problem(self, error: OSError) -> str | None:
        """What to tell of an error with this folder or what is in it; None for one about anything else."""
        if not isinstance(error.filename, str) or not Path(error.filename).absolute().is_relative_to(self.root):
            return None
        return f"cannot use the folder {self.root}: {error.strerror}; set NOETL_HOME to a folder you own"

    def log(self, name: str) -> Path:
        """Where the process ``name`` writes its log."""
        return self.root / f"{name}.log"

    def signing_key(self) -> Path:
        """The file with the key under which this stack's runs are signed (signing.py), made once."""
        self.password("signing")
        return self.root / "signing.password"

    def password(self, account: str) -> str:
        """The password of an account of the embedded Postgres, made once and readable by its owner alone."""
        path = self.root / f"{account}.password"
        if not path.exists():
            write_whole(path, secrets.token_hex(16))
        return path.read_text()

    @contextmanager
    def owner_lock(self, mode: Mode) -> Generator[None]:
        """Hold the folder as its one owner. Raises BusyError when another process does."""
        self.prepare()
        with self._owner_file.open("a") as file:
            if not _locked(file, fcntl.LOCK_EX, LOCK_SECONDS):
                raise BusyError(f"another process owns the stack in {self.root}")
            file.truncate(0)
            file.write(f"{os.getpid()} {mode}")
            file.flush()
            yield

    def owner(self) -> Owner | None:
        """Who owns the folder now; None when nobody does."""
        try:
            with self._owner_file.open() as file:
                if _locked(file, fcntl.LOCK_SH):
                    return None
                pid, mode = file.read().split()
        except FileNotFoundError:
            return None
        except ValueError:  # it is just writing its name
            time.sleep(POLL_SECONDS)
            return self.owner()
        return Owner(int(pid), "dev" if mode == "dev" else "run")

    @property
    def _owner_file(self) -> Path:
        return self.root / "owner.lock"

    @contextmanager
    def user_lock(self) -> Generator[None]:
        """Keep the owner from stopping the stack while this is held."""
        with (self.root / "users.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def in_use(self) -> bool:
        """Whether another process holds the stack in use."""
        with (self.root / "users.lock").open("a") as file:
            return not _locked(file, fcntl.LOCK_EX)


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all, readable by its owner alone. One process at a time writes a path."""
    draft = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    draft.replace(path)


def _locked(file: IO[str], how: int, seconds: float = 0) -> bool:
    """Whether the lock was got. Those who only look hold it for a moment: an owner gives them ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_SECONDS)
        else:
            return True
