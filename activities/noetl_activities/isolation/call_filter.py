"""A system call filter (seccomp) for what landlock cannot restrict.

It restricts sockets, because landlock's rules for ports only cover plain TCP. Allowed are TCP, UDP and ping over IPv4
and IPv6, and netlink's list of addresses, which host name lookup reads. Forbidden are

- Unix sockets: Postgres, Docker, D-Bus and ssh agents listen on them. ``socketpair``, which event loops use, is a
  separate call, and allowed for streams: a datagram pair can send to any path;
- listening, which without ``bind`` uses a free port of every address, unchecked by landlock;
- Multipath TCP, which can connect to TCP servers; SMC, virtual machine sockets and other families;
- TCP Fast Open, which connects by sending;
- io_uring, whose operations a filter does not see.

Also forbidden are

- limits and priorities of other processes: a task in the worker's account could limit the worker's processor time to a
  second;
- the kernel's keyrings, which belong to an account;
- memory files and System V segments, whose memory no limit counts;
- if the file system is not read-only (mounts.py), changes of permissions, owners, times and extended attributes of all
  files. A filter sees neither paths nor how a descriptor was opened, and a descriptor of a library that is open for
  reading would suffice to make the library writable for everyone.
"""

from __future__ import annotations

import ctypes
import errno
import os

from noetl_activities.isolation import system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_FAST_OPEN = 0x20000000
"""The flag MSG_FASTOPEN."""

_NUMBERS = {
    # call: (its number on x86_64, on aarch64)
    "socket": (41, 198),
    "socketpair": (53, 199),
    "listen": (50, 201),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "io_uring_setup": (425, 425),
    "prlimit64": (302, 261),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setattr": (314, 274),
    "sched_setaffinity": (203, 122),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "memfd_create": (319, 279),
    "shmget": (29, 194),
}
_ALLOWED: dict[str, dict[int, tuple[int, ...]]] = {
    # call: {index of an argument: its allowed values}
    "socket": {
        0: (2, 10, 16),  # IPv4, IPv6, netlink; importing ``socket`` for the constants would double the import time
        2: (0, 6, 17, 1, 58),  # the family's own, TCP, UDP, ICMP, ICMPv6
    },
    "socketpair": {1: (0x1, 0x801, 0x80001, 0x80801)},  # a stream, with or without its two flags
    "listen": {0: ()},
    "prlimit64": {0: (0,)},
    "sched_setparam": {0: (0,)},
    "sched_setscheduler": {0: (0,)},
    "sched_setattr": {0: (0,)},
    "sched_setaffinity": {0: (0,)},
    "setpriority": {0: (0, 1), 1: (0,)},  # of this process or its group, not of an account
    "ioprio_set": {0: (1, 2), 1: (0,)},
    "io_uring_setup": {0: ()},
    "add_key": {0: ()},
    "request_key": {0: ()},
    "keyctl": {0: ()},
    "memfd_create": {0: ()},
    "shmget": {0: ()},
}
_ATTRIBUTES: dict[str, tuple[int | None, int | None]] = {
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
}
"""The calls that change attributes of files, with their numbers; None if an architecture does not have the call."""

_IOCTL = (16, 29)
_ATTRIBUTE_REQUESTS = (0x40086602, 0x40046602, 0x401C5820, 0x40087602)
"""The ``ioctl`` requests that change a file that is open for reading: flags, in two sizes; project; version."""

_FLAGS_ARGUMENTS = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
"""Call -> the index of its argument with the flags."""

_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Machine -> (its column in the tables of numbers, the value of struct seccomp_data for its architecture)."""

_SECOND_ABI = 0x40000000
"""x86_64 has its system calls twice: from this number on for programs with 32-bit pointers (x32)."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # instructions of BPF
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_FILTER_MODE = 2

_Instruction = tuple[int, int, int, int]


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))


def restrict_calls(*, may_change_attributes: bool) -> bool:
    """Install the filter. False if the platform does not support it. Needs PR_SET_NO_NEW_PRIVS.

    ``may_change_attributes``: allow changes of permissions, owners, times and extended attributes of files.
    """
    if os.uname().machine not in _ARCHITECTURES:
        return False
    import struct

    program = _program(*_ARCHITECTURES[os.uname().machine], may_change_attributes=may_change_attributes)
    instructions = b"".join(struct.pack("HBBI", *instruction) for instruction in program)
    buffer = ctypes.create_string_buffer(instructions, len(instructions))
    filter_ = _Filter(len(instructions) // 8, system.address(buffer))
    try:
        system.prctl(system.PR_SET_SECCOMP, _FILTER_MODE, system.address(filter_))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True


def _program(column: int, architecture: int, *, may_change_attributes: bool) -> list[_Instruction]:
    """Return the BPF program: for each restricted call a test of its number, which jumps over the block of the call if
    the number differs. Each block ends in a return.
    """
    program = [
        _load(_ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        _fail(errno.ENOSYS),  # 32-bit programs, whose calls have other numbers
        _load(_NUMBER),
        (_AT_LEAST, 0, 1, _SECOND_ABI),
        _fail(errno.ENOSYS),
    ]
    for number, block in _blocks(column, may_change_attributes=may_change_attributes):
        program += [(_EQUAL, 0, len(block), number), *block]
    return [*program, _return(_ALLOW)]


def _blocks(column: int, *, may_change_attributes: bool) -> Iterator[tuple[int, list[_Instruction]]]:
    """Yield the numbers of the restricted system calls, each with its block of the program."""
    for name, allowed_values in _ALLOWED.items():
        yield _NUMBERS[name][column], _allow_values(allowed_values)
    for name, argument in _FLAGS_ARGUMENTS.items():
        yield _NUMBERS[name][column], _deny_fast_open(argument)
    if may_change_attributes:
        return
    for row in _ATTRIBUTES.values():
        number = row[column]
        if number is not None:
            yield number, [_fail(errno.EPERM)]
    yield _IOCTL[column], _deny_requests(_ATTRIBUTE_REQUESTS)


def _allow_values(allowed_values: dict[int, tuple[int, ...]]) -> list[_Instruction]:
    block: list[_Instruction] = []
    for argument, values in allowed_values.items():
        tests = [(_EQUAL, len(values) - index, 0, value) for index, value in enumerate(values)]
        block += [_load(_ARGUMENTS + 8 * argument), *tests, _fail(errno.EPERM)]
    return [*block, _return(_ALLOW)]


def _deny_requests(requests: tuple[int, ...]) -> list[_Instruction]:
    tests = [(_EQUAL, len(requests) - index, 0, request) for index, request in enumerate(requests)]
    return [_load(_ARGUMENTS + 8), *tests, _return(_ALLOW), _fail(errno.EPERM)]


def _deny_fast_open(argument: int) -> list[_Instruction]:
    return [
        _load(_ARGUMENTS + 8 * argument),
        (_ANY_BIT, 0, 1, _FAST_OPEN),
        _fail(errno.EOPNOTSUPP),
        _return(_ALLOW),
    ]


def _load(offset: int) -> _Instruction:
    return (_LOAD, 0, 0, offset)


def _return(action: int) -> _Instruction:
    return (_RETURN, 0, 0, action)


def _fail(error: int) -> _Instruction:
    return _return(_ERROR | error)
