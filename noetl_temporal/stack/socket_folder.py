"""The folder of Postgres's Unix socket, which only the stack's owner enters.

A client that connects there reaches this stack's own server, whatever listens on its TCP port: a port is taken by
anyone who comes first, a name in this folder only by the account that runs Postgres.

A socket's path has at most 103 bytes, which the stack's folder may exceed. The folder is therefore created again at
each start where paths are short: below XDG_RUNTIME_DIR, else in the folder for temporary files. A note in the stack's
folder says where, so that the next start removes what a killed owner left.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import OTHERS_MAY_WRITE, read_text, write_whole
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.postgres_location import PostgresLocation, reachable

__all__ = ["make_socket_folder", "remove_socket_folder"]

PREFIX = "noetl-"
MAX_BYTES = 103 - len("/.s.PGSQL.65535")
RANDOM_BYTES = len("/") + len(PREFIX) + 8


def make_socket_folder(home: Home, where: PostgresLocation) -> Path:
    """Make the folder, for Postgres and its owner alone. Raises StackError."""
    remove_socket_folder(home)
    for parent in _parents():
        if _suitable(parent, where):
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            write_whole(_note(home), str(folder))
            where.own(folder)
            return folder
    raise StackError(
        "no folder is suitable for the socket of Postgres: set TMPDIR to a folder of your own with a short path"
    )


def remove_socket_folder(home: Home) -> None:
    """Remove the folder that was made last, if it is still there."""
    with contextlib.suppress(OSError):
        folder = Path(read_text(_note(home)))
        if folder.name.startswith(PREFIX) and not folder.is_symlink():
            for left in folder.glob(".s.PGSQL.*"):
                left.unlink()
            folder.rmdir()
    _note(home).unlink(missing_ok=True)


def _note(home: Home) -> Path:
    return home.root / "socket.txt"


def _parents() -> Iterator[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime)
    yield Path(tempfile.gettempdir())
    yield Path("/tmp")  # noqa: S108  # mkdtemp makes a folder there that only its owner enters


def _suitable(parent: Path, where: PostgresLocation) -> bool:
    """Whether nobody else can replace what is made there, Postgres gets there, and the path is short enough."""
    if not parent.is_absolute() or not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return False
    if len(os.fsencode(parent)) + RANDOM_BYTES > MAX_BYTES:
        return False
    status = parent.stat()
    kept = not status.st_mode & OTHERS_MAY_WRITE or status.st_mode & stat.S_ISVTX
    return bool(kept) and status.st_uid in (0, os.geteuid()) and (where.account is None or reachable(parent / PREFIX))
