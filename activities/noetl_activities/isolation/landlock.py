"""Landlock, a Linux sandbox for unprivileged processes: everything that is not allowed here is denied permanently to
this process and its children. They also have no access to processes outside of the sandbox: no ptrace, nothing in
/proc/<pid> that requires ptrace access (environ, mem, fd, root), and no signals since ABI 6.

https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import stat

from noetl_activities.isolation import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PORTS_SINCE, SIGNALS_SINCE = 4, 6
"""The ABIs that introduced rules for TCP ports and for signals."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same number on every architecture
_QUERY_ABI = 1
_PATH_RULE, _PORT_RULE = 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE, _IOCTL = (1 << bit for bit in (0, 1, 2, 3, 14, 15))
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL
READ = _EXECUTE | _READ_FILE | _READ_DIR
WRITE = (1 << 16) - 1
"""The rights of all ABIs. Only those that the kernel supports are passed to it."""
LIST = _READ_DIR

_FILE_RIGHT_COUNTS = (0, 13, 14, 15, 15, 16)
"""ABI -> number of file rights; the last number also applies to later ABIs."""

_BIND, _CONNECT = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("parent", ctypes.c_int32))


class _PortRule(ctypes.Structure):
    _fields_ = (("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64))


def abi() -> int:
    """Return the kernel's landlock ABI version; 0 if landlock is not available."""
    try:
        return system.system_call(_CREATE_RULESET, 0, 0, _QUERY_ABI)
    except OSError:
        return 0


def restrict(version: int, paths: Iterable[tuple[str, int]], ports: Iterable[int]) -> None:
    """Restrict this process to the ``(path, rights)`` of ``paths`` and everything below them, and to TCP connections to
    ``ports`` (from ABI 4); listening is denied. Paths that do not exist are skipped. Needs PR_SET_NO_NEW_PRIVS.
    """
    every_right = (1 << _FILE_RIGHT_COUNTS[min(version, len(_FILE_RIGHT_COUNTS) - 1)]) - 1
    network = _BIND | _CONNECT if version >= PORTS_SINCE else 0
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if version >= SIGNALS_SINCE else 0
    rules = _Ruleset(every_right, network, scopes)
    size = 24 if scopes else 16 if network else 8
    ruleset = system.system_call(_CREATE_RULESET, system.address(rules), size, 0)
    try:
        for path, rights in paths:
            _allow_path(ruleset, path, rights & every_right)
        for port in ports if network else ():
            rule = _PortRule(_CONNECT, port)
            system.system_call(_ADD_RULE, ruleset, _PORT_RULE, system.address(rule), 0)
        system.system_call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow_path(ruleset: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= _FILE_RIGHTS
        if not rights:  # LIST of a path that is not a folder; the kernel refuses a rule without rights
            return
        rule = _PathRule(rights, descriptor)
        system.system_call(_ADD_RULE, ruleset, _PATH_RULE, system.address(rule), 0)
    finally:
        os.close(descriptor)
