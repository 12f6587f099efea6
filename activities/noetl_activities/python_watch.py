"""What kills the processes of a python task when their worker is gone, however it went.

A shell beside them reads a pipe that only the worker can write to, and never does: when the worker's process ends, the
system closes the pipe, and the shell kills the task's whole process group. It is no part of that group, nor of the
worker's, so that what ends those leaves it alone. A thread in the task's process would not do: code in C that keeps
the interpreter to itself (``sum(range(10**15))``) never lets it run, and a process that has ended kills nothing that
it has started. Nor would a signal that Linux sends at the death of a parent, which one process gets, and not its
group.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncGenerator

__all__ = ["watched"]

_SCRIPT = 'trap "" HUP INT TERM; read -r _; kill -9 "-$1"'
"""A supervisor may ask all processes of a service to end, which here is the worker's to answer."""


@contextlib.asynccontextmanager
async def watched(group: int) -> AsyncGenerator[None]:
    """Until left, the process group is killed should this process end."""
    shell = await asyncio.create_subprocess_exec(
        *("/bin/sh", "-c", _SCRIPT, "sh", str(group)),
        stdin=PIPE,
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
    )
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            shell.kill()
        await shell.wait()
