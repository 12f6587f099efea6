"""Linux system calls for which Python has no functions. They raise OSError."""

from __future__ import annotations

import ctypes
import os

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_KEEPCAPS = 8
PR_SET_SECCOMP = 22
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_RAISE = 2

_CAPABILITY_VERSION_3 = 0x20080522
_libc = ctypes.CDLL(None, use_errno=True)


def prctl(option: int, first: int = 0, second: int = 0) -> None:
    """Set an option of this process. Structures are passed by address."""
    _check(_libc.prctl(option, ctypes.c_ulong(first), ctypes.c_ulong(second), ctypes.c_ulong(0), ctypes.c_ulong(0)))


def system_call(number: int, *values: int) -> int:
    """Make the system call ``number`` and return its result. Structures are passed by address."""
    return _check(_libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(value) for value in values)))


def unshare(flags: int) -> None:
    """Move this process into new namespaces."""
    _check(_libc.unshare(flags))


def mount(source: str | None, target: str, kind: str | None, flags: int, options: str | None) -> None:
    """Mount a file system, or change a mount."""
    texts = [None if text is None else text.encode() for text in (source, target, kind, options)]
    _check(_libc.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]))


def capabilities() -> int:
    """Return the effective capabilities of this process, as bits."""
    data = (ctypes.c_uint32 * 6)()
    _check(_libc.capget(_capability_header(), data))
    return data[0] | data[3] << 32  # the effective capabilities: the low and the high 32 bits


def keep_capabilities(bits: int) -> None:
    """Drop all capabilities except those in ``bits``, also for child processes."""
    words = (bits & 0xFFFFFFFF, bits >> 32)
    data = (ctypes.c_uint32 * 6)(*(word for word in words for _ in range(3)))
    _check(_libc.capset(_capability_header(), data))


def address(structure: ctypes.Structure | ctypes.Array[ctypes.c_char]) -> int:
    """Return the address of a structure, which must outlive the call."""
    return ctypes.addressof(structure)


def _capability_header() -> ctypes.Array[ctypes.c_uint32]:
    return (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)


def _check(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
