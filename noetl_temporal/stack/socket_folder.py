"""The folder of Postgres's Unix socket, which only the owner of the stack can enter.

A client that connects to the socket reaches the server of this stack: any account can listen on a free TCP port, but
only the account that runs Postgres can create a socket in this folder.

The path of a socket has at most 103 bytes, and the stack's folder may be longer. So the socket folder is created at
each start where paths are short: below XDG_RUNTIME_DIR, else in the folder for temporary files. Its path is stored in
the stack's folder, so that the next start can remove it if the owner was killed.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import OTHERS_MAY_WRITE, read_text, write_atomically
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.postgres_location import PostgresLocation, is_reachable

__all__ = ["make_socket_folder", "remove_socket_folder"]

PREFIX = "noetl-"
MAX_BYTES = 103 - len("/.s.PGSQL.65535")
"""The maximum length of the path of the folder."""

NAME_BYTES = len("/") + len(PREFIX) + 8


def make_socket_folder(home: Home, location: PostgresLocation) -> Path:
    """Create the folder, which only the account of Postgres can enter. Raises StackError."""
    remove_socket_folder(home)
    for parent in _parents():
        if _is_suitable(parent, location):
            folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
            write_atomically(_path_file(home), str(folder))
            location.give_to_server(folder)
            return folder
    raise StackError(
        "no folder is suitable for the socket of Postgres: set TMPDIR to a folder of your own with a short path"
    )


def remove_socket_folder(home: Home) -> None:
    """Remove the folder of the last start, if it still exists."""
    with contextlib.suppress(OSError):
        folder = Path(read_text(_path_file(home)))
        if folder.name.startswith(PREFIX) and not folder.is_symlink():
            for socket in folder.glob(".s.PGSQL.*"):
                socket.unlink()
            folder.rmdir()
    _path_file(home).unlink(missing_ok=True)


def _path_file(home: Home) -> Path:
    return home.root / "socket.txt"


def _parents() -> Iterator[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Path(runtime)
    yield Path(tempfile.gettempdir())
    yield Path("/tmp")  # noqa: S108  # mkdtemp makes a folder there that only its owner enters


def _is_suitable(parent: Path, location: PostgresLocation) -> bool:
    """Whether only this account and root control ``parent``, Postgres can reach it, and its path is short enough."""
    if not parent.is_absolute() or not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        return False
    if len(os.fsencode(parent)) + NAME_BYTES > MAX_BYTES:
        return False
    status = parent.stat()
    is_protected = not status.st_mode & OTHERS_MAY_WRITE or status.st_mode & stat.S_ISVTX
    return (
        bool(is_protected)
        and status.st_uid in (0, os.geteuid())
        and (location.account is None or is_reachable(parent / PREFIX))
    )
