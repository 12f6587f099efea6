"""Which sockets a task may open: a filter of system calls (seccomp), as landlock's ports are those of plain TCP alone.

Allowed are TCP, UDP and ping over IPv4 and IPv6, and netlink's list of addresses, which looking up a host name reads.
Not allowed are

- Unix sockets, of which landlock in most kernels has no rule: Postgres, Docker, D-Bus and ssh agents listen on them.
  ``socketpair``, which event loops use, is a call of its own and allowed;
- Multipath TCP, which connects to servers of TCP past landlock; SMC, virtual machine sockets and other families;
- TCP Fast Open, which connects by sending, past landlock's rule for connecting;
- io_uring, whose operations no filter sees.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket

from noetl_activities.isolation import system

_FAMILIES = (socket.AF_INET, socket.AF_INET6, 16)  # 16: netlink
_PROTOCOLS = (0, socket.IPPROTO_TCP, socket.IPPROTO_UDP, socket.IPPROTO_ICMP, socket.IPPROTO_ICMPV6)
_FAST_OPEN = 0x20000000

_ARCHITECTURES = {
    # machine: (architecture, socket, sendto, sendmsg, sendmmsg, io_uring_setup)
    "x86_64": (0xC000003E, 41, 44, 46, 307, 425),
    "aarch64": (0xC00000B7, 198, 206, 211, 269, 425),
}
_SECOND_ABI = 0x40000000
"""x86_64 has its system calls twice: from this number on for programs with short pointers (x32)."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of BPF
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # where struct seccomp_data has them
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_FILTER_MODE = 2

_Instruction = tuple[int, int, int, int]


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("program", ctypes.c_void_p))


def restrict_sockets() -> bool:
    """False where there is no filter for this kernel. Needs PR_SET_NO_NEW_PRIVS."""
    numbers = _ARCHITECTURES.get(os.uname().machine)
    if numbers is None:
        return False
    import struct

    packed = b"".join(struct.pack("HBBI", *instruction) for instruction in _program(*numbers))
    program = ctypes.create_string_buffer(packed, len(packed))
    whole = _Filter(len(packed) // 8, system.address(program))
    try:
        system.prctl(system.PR_SET_SECCOMP, _FILTER_MODE, system.address(whole))
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return False
    return True


def _program(arch: int, sock: int, sendto: int, sendmsg: int, sendmmsg: int, io_uring: int) -> list[_Instruction]:
    """Each block ends in a return; a test jumps over it."""
    blocks = {
        sock: [
            *_one_of(0, _FAMILIES, errno.EACCES),
            *_one_of(2, _PROTOCOLS, errno.EPROTONOSUPPORT),
            _returning(_ALLOW),
        ],
        sendto: _without_fast_open(3),
        sendmsg: _without_fast_open(2),
        sendmmsg: _without_fast_open(3),
        io_uring: [_failing(errno.ENOSYS)],
    }
    program = [
        _load(_ARCHITECTURE),
        (_EQUAL, 1, 0, arch),
        _failing(errno.ENOSYS),  # 32-bit programs, whose calls have other numbers
        _load(_NUMBER),
        (_AT_LEAST, 0, 1, _SECOND_ABI),
        _failing(errno.ENOSYS),
    ]
    for number, block in blocks.items():
        program += [(_EQUAL, 0, len(block), number), *block]
    return [*program, _returning(_ALLOW)]


def _one_of(argument: int, values: tuple[int, ...], error: int) -> list[_Instruction]:
    count = len(values)
    tests = [(_EQUAL, count - place, 0, int(value)) for place, value in enumerate(values)]
    return [_load(_ARGUMENTS + 8 * argument), *tests, _failing(error)]


def _without_fast_open(argument: int) -> list[_Instruction]:
    return [
        _load(_ARGUMENTS + 8 * argument),
        (_ANY_BIT, 0, 1, _FAST_OPEN),
        _failing(errno.EOPNOTSUPP),
        _returning(_ALLOW),
    ]


def _load(offset: int) -> _Instruction:
    return (_LOAD, 0, 0, offset)


def _returning(action: int) -> _Instruction:
    return (_RETURN, 0, 0, action)


def _failing(error: int) -> _Instruction:
    return _returning(_ERROR | error)
