"""Mounts of a task, which make the file system read-only except for its writable folders.

Landlock does not restrict changes of permissions, owners, times and extended attributes, so the owner of a file can
change them. A read-only mount prevents that. If a task cannot have separate mounts, ``call_filter`` forbids the calls
instead, also for writable files.

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

SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the mount point, not a file in it
SHARED_MEMORY_BYTES = 1 << 30

_NEW_MOUNT_NAMESPACE, _NEW_IPC_NAMESPACE = 0x00020000, 0x08000000
_PRIVATE, _RECURSIVE, _NO_SUID, _NO_DEVICES = 1 << 18, 1 << 14, 1 << 1, 1 << 2

_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442  # the same number on every architecture
_CURRENT_FOLDER = -100
_CLONE, _CLOSE_ON_EXEC, _WHOLE_TREE, _EMPTY_PATH, _FROM_EMPTY_PATH = 1, 0o2000000, 0x8000, 0x1000, 4
_READ_ONLY = 1


class _Attributes(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace"))


def enter_mount_namespace() -> bool:
    """Enter separate namespaces for mounts and for System V shared memory. False if the kernel forbids it."""
    try:
        system.unshare(_NEW_MOUNT_NAMESPACE | _NEW_IPC_NAMESPACE)
        system.mount(None, "/", None, _PRIVATE | _RECURSIVE, None)
    except OSError:
        return False
    return True


def make_read_only(writable: Sequence[str], hidden_paths: Sequence[str]) -> bool:
    """Make all files read-only except those below ``writable``, and below it also ``hidden_paths``. All are real paths.

    Returns False if that is not possible; then nothing has changed.
    """
    if "/" in writable:
        return False
    with contextlib.ExitStack() as descriptors:
        try:
            trees = [
                (path, _clone_mount(path, read_only, descriptors))
                for path, read_only in _boundaries(writable, hidden_paths)
            ]
            _set_read_only(_CURRENT_FOLDER, "/", _WHOLE_TREE)
        except OSError:
            return False
        for path, tree in trees:
            if tree is not None:
                _attach_mount(tree, path)
    return True


def mount_shared_memory(memory: int) -> bool:
    """Mount a separate /dev/shm of at most ``memory`` bytes."""
    options = f"size={min(memory, SHARED_MEMORY_BYTES)},mode=1777"
    try:
        system.mount("tmpfs", SHARED_MEMORY, "tmpfs", _NO_SUID | _NO_DEVICES, options)
    except OSError:
        return False
    return True


def _boundaries(writable: Sequence[str], hidden_paths: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Yield (path, whether it is read-only) for each path whose mode differs from that of its parent; parents first."""
    boundaries: list[tuple[str, bool]] = [("/", True)]
    for path, read_only in sorted([*((path, False) for path in writable), *((path, True) for path in hidden_paths)]):
        outer_modes = [mode for outer, mode in boundaries if path == outer or path.startswith(outer.rstrip("/") + "/")]
        if outer_modes[-1] != read_only:
            boundaries.append((path, read_only))
            yield path, read_only


def _clone_mount(path: str, read_only: bool, descriptors: contextlib.ExitStack) -> int | None:
    """Return a detached mount of the tree at ``path``. None if the path does not exist."""
    path_buffer = ctypes.create_string_buffer(os.fsencode(path))
    try:
        tree = system.system_call(
            _OPEN_TREE, _CURRENT_FOLDER, system.address(path_buffer), _CLONE | _CLOSE_ON_EXEC | _WHOLE_TREE
        )
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.EACCES):
            return None
        raise
    descriptors.callback(os.close, tree)
    if read_only:
        _set_read_only(tree, "", _WHOLE_TREE | _EMPTY_PATH)
    return tree


def _set_read_only(folder: int, path: str, flags: int) -> None:
    path_buffer, attributes = ctypes.create_string_buffer(os.fsencode(path)), _Attributes(_READ_ONLY)
    size = ctypes.sizeof(attributes)
    system.system_call(_MOUNT_SETATTR, folder, system.address(path_buffer), flags, system.address(attributes), size)


def _attach_mount(tree: int, path: str) -> None:
    empty, path_buffer = ctypes.create_string_buffer(b""), ctypes.create_string_buffer(os.fsencode(path))
    system.system_call(
        _MOVE_MOUNT, tree, system.address(empty), _CURRENT_FOLDER, system.address(path_buffer), _FROM_EMPTY_PATH
    )
