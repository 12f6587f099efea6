"""Read files named by a user, without blocking and within a size limit.

A path may lead to a pipe without a writer, to a device with endless data, or to a device that acts when it is opened.
So its type is checked before it is opened, and again afterwards, as it may have been replaced. Opening does not wait
for the other end of a pipe.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

__all__ = ["file_type", "read_regular", "read_regular_in", "require_regular"]

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


def read_regular(path: Path, limit: int) -> bytes:
    """Return the first ``limit`` bytes of a regular file. To detect a file over a limit, pass the limit + 1.

    Raises OSError; its ``strerror`` describes a file that is not regular.
    """
    require_regular(path, path.stat())
    return _read(os.open(path, _FLAGS), path, limit)


def read_regular_in(folder: int, name: str, limit: int) -> bytes:
    """Return the first ``limit`` bytes of a regular file in an open folder. Follows no link. Raises OSError."""
    require_regular(Path(name), os.stat(name, dir_fd=folder, follow_symlinks=False))
    return _read(os.open(name, _FLAGS | os.O_NOFOLLOW, dir_fd=folder), Path(name), limit)


def _read(descriptor: int, path: Path, limit: int) -> bytes:
    try:
        require_regular(path, os.fstat(descriptor))
        content = bytearray()
        while len(content) < limit and (chunk := os.read(descriptor, min(_CHUNK, limit - len(content)))):
            content += chunk
        return bytes(content)
    finally:
        os.close(descriptor)


def require_regular(path: Path, status: os.stat_result) -> None:
    """Raise OSError if this is not the status of a regular file."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, f"it is {file_type(status)}, not a file", str(path))


def file_type(status: os.stat_result) -> str:
    """Return the type of a file in words."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
