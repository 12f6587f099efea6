"""The folder that keeps the stack's data and state: ``.noetl`` here, or what NOETL_HOME names."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from noetl_temporal.stack.errors import BusyError, StackError

__all__ = ["Home"]


class Home:
    """Paths below the folder, and its two locks."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or Path(os.environ.get("NOETL_HOME", ".noetl"))).absolute()
        self.stack = self.root / "stack.json"
        self.servers = self.root / "servers.json"
        self.database = self.root / "temporal.db"
        self.postgres = self.root / "postgres"
        self.credentials = self.root / "credentials.yaml"

    def prepare(self) -> None:
        """Make the folder, out of git's sight. Raises StackError when it cannot be written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            ignore = self.root / ".gitignore"
            if not ignore.exists():
                ignore.write_text("*\n")
        except OSError as error:
            raise StackError(
                f"cannot write to {self.root}: {error.strerror}; set NOETL_HOME to a folder you own"
            ) from error

    def log(self, name: str) -> Path:
        """Where the process ``name`` writes its log."""
        return self.root / f"{name}.log"

    def password(self) -> str:
        """The embedded Postgres's password, made once and readable by its owner alone."""
        path = self.root / "postgres.password"
        if not path.exists():
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                file.write(secrets.token_hex(16))
        return path.read_text()

    @contextmanager
    def owner_lock(self) -> Generator[None]:
        """Hold the folder as its one owner. Raises BusyError when another process does."""
        self.prepare()
        with (self.root / "owner.lock").open("a") as file:
            if not _locked(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
                raise BusyError(f"another process owns the stack in {self.root}")
            yield

    def owned(self) -> bool:
        """Whether some process owns the folder now."""
        try:
            with self.owner_lock():
                return False
        except BusyError:
            return True

    @contextmanager
    def user_lock(self) -> Generator[None]:
        """Keep the owner from stopping the stack while this is held."""
        with (self.root / "users.lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield

    def in_use(self) -> bool:
        """Whether another process holds the stack in use."""
        with (self.root / "users.lock").open("a") as file:
            return not _locked(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _locked(file: IO[str], how: int) -> bool:
    try:
        fcntl.flock(file, how)
    except BlockingIOError:
        return False
    return True
