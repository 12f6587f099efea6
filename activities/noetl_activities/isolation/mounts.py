"""Mounts of a task, which make the file system read-only except for its writable folders.

Landlock does not restrict permissions, owners, times and extended attributes: the owner of a file can change them. A
read-only mount prevents that. If a task cannot have mounts of its own, ``call_filter`` forbids the calls instead, also
for writable files.

Each writable directory becomes a mount, so ``rename`` between them fails, and files are copied instead.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os

from noetl_activities.isolation import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the place itself, no file in it
SHARED_MEMORY_SIZE = 1 << 30

_NEW_MOUNTS, _NEW_IPC = 0x00020000, 0x08000000
_PRIVATE, _RECURSIVE, _NO_SUID, _NO_DEVICES = 1 << 18, 1 << 14, 1 << 1, 1 << 2

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same number on every architecture
_FROM_HERE = -100
_CLONE, _CLOSE_ON_EXEC, _WHOLE_TREE, _EMPTY_PATH, _FROM_EMPTY_PATH = 1, 0o2000000, 0x8000, 0x1000, 4
_READ_ONLY = 1


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace"))


def become_own() -> bool:
    """Enter separate namespaces for mounts and System V shared memory. False if the kernel forbids it."""
    try:
        system.unshare(_NEW_MOUNTS | _NEW_IPC)
        system.mount(None, "/", None, _PRIVATE | _RECURSIVE, None)
    except OSError:
        return False
    return True


def become_read_only(writable: Sequence[str], hidden: Sequence[str]) -> bool:
    """Make all mounts read-only except ``writable``, but also ``hidden`` paths in them. All are real paths. False if
    that is not possible: then nothing has changed.
    """
    if "/" in writable:
        return False
    with contextlib.ExitStack() as opened:
        try:
            trees = [(path, _cloned(path, read_only, opened)) for path, read_only in _boundaries(writable, hidden)]
            _make_read_only(_FROM_HERE, "/", _WHOLE_TREE)
        except OSError:
            return False
        for path, tree in trees:
            if tree is not None:
                _put(tree, path)
    return True


def share_memory(memory: int) -> bool:
    """Mount a separate /dev/shm of at most ``memory`` bytes."""
    options = f"size={min(memory, SHARED_MEMORY_SIZE)},mode=1777"
    try:
        system.mount("tmpfs", SHARED_MEMORY, "tmpfs", _NO_SUID | _NO_DEVICES, options)
    except OSError:
        return False
    return True


def _boundaries(writable: Sequence[str], hidden: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield the paths where the mode changes, with whether they are read-only; outer paths first."""
    boundaries: list[tuple[str, bool]] = [("/", True)]
    for path, read_only in sorted([*((path, False) for path in writable), *((path, True) for path in hidden)]):
        around = [kind for outer, kind in boundaries if path == outer or path.startswith(outer.rstrip("/") + "/")]
        if around[-1] != read_only:
            boundaries.append((path, read_only))
            yield path, read_only


def _cloned(path: str, read_only: bool, opened: contextlib.ExitStack) -> int | None:
    """Return a detached mount of the tree at ``path``. None if the path does not exist."""
    place = ctypes.create_string_buffer(os.fsencode(path))
    try:
        tree = system.system_call(_OPEN_TREE, _FROM_HERE, system.address(place), _CLONE | _CLOSE_ON_EXEC | _WHOLE_TREE)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return None
        raise
    opened.callback(os.close, tree)
    if read_only:
        _make_read_only(tree, "", _WHOLE_TREE | _EMPTY_PATH)
    return tree


def _make_read_only(folder: int, path: str, flags: int) -> None:
    place, attributes = ctypes.create_string_buffer(os.fsencode(path)), _Attributes(_READ_ONLY)
    size = ctypes.sizeof(attributes)
    system.system_call(_MOUNT_SETATTR, folder, system.address(place), flags, system.address(attributes), size)


def _put(tree: int, path: str) -> None:
    nothing, place = ctypes.create_string_buffer(b""), ctypes.create_string_buffer(os.fsencode(path))
    system.system_call(_MOVE_MOUNT, tree, system.address(nothing), _FROM_HERE, system.address(place), _FROM_EMPTY_PATH)
