"""Reads files named by a user, without blocking and within a size limit.

A path may lead to a pipe without a writer, to a device with endless data, or to one that acts when it
is opened. So its kind is looked at before it is opened and, as it may be another by then, once more after; it is opened
so that a pipe does not wait for its other end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["kind_of", "read_in", "read_regular", "refuse_others"]

_CHUNK = 1 << 20
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_KINDS = {
    stat.S_IFREG: "a file",
    stat.S_IFLNK: "a link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def read_regular(path: Path, most: int) -> bytes:
    """Return the first ``most`` bytes of a regular file. To detect a file over a limit, pass the limit + 1.

    Raises OSError; its ``strerror`` describes a file that is not regular.
    """
    refuse_others(path, path.stat())
    return _read(os.open(path, _FLAGS), path, most)


def read_in(folder: int, name: str, most: int) -> bytes:
    """The same of a file in an open folder, which must not be a link. Raises OSError."""
    refuse_others(Path(name), os.stat(name, dir_fd=folder, follow_symlinks=False))
    return _read(os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder), Path(name), most)


def _read(descriptor: int, path: Path, most: int) -> bytes:
    try:
        refuse_others(path, os.fstat(descriptor))
        found = bytearray()
        while len(found) < most and (chunk := os.read(descriptor, min(_CHUNK, most - len(found)))):
            found += chunk
        return bytes(found)
    finally:
        os.close(descriptor)


def refuse_others(path: Path, status: os.stat_result) -> None:
    """Raises OSError for what is no regular file."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, f"it is {kind_of(status)}, not a file", str(path))


def kind_of(status: os.stat_result) -> str:
    """Return the type of a file in words."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
