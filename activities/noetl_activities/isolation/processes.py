"""Runs one call in a sandboxed process: the worker's side of ``supervisor``."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Generator
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from noetl_activities.errors import ConfigError
from noetl_activities.isolation.captured import Captured
from noetl_activities.isolation.settings import settings_of

__all__ = ["ProcessExit", "run_task"]

_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV")
"""Variables that a task inherits from the worker. HOME and TMPDIR are its own folder."""

_ROOT = Path(__file__).parents[2]
_START = "import sys; sys.path.insert(0, {root!r}); from {module} import main; del sys.path[0]; main()"
"""The package is imported from where the worker has it. It does not stay on the path, as its neighbours are none of the
task's business; what stands in the worker's current folder is not imported (-P).
"""

_MAX_ANSWER = 64 * 1024 * 1024
_GRACE = 1.0
"""Seconds to read what is left in the pipes when the supervisor has ended."""


class ProcessExit(NamedTuple):
    """What a call has answered, and its exit status, -9 for signal 9."""

    answer: bytes
    status: int


async def run_task(module: str, call: bytes, stdout: Captured, stderr: Captured) -> ProcessExit:
    """Run ``main`` of ``module``, which begins with ``supervisor.start_task`` and answers on descriptor ``argv[1]``.
    What it prints is added to ``stdout`` and ``stderr``, which may be the same.

    Cancellation ends the task and all that it has started. Raises ConfigError for an answer over 64 MB.
    """
    _protect_worker()
    header = json.dumps({"size": len(call), **settings_of(os.environ)}).encode()
    answer = Captured(_MAX_ANSWER)
    with contextlib.ExitStack() as pipes:
        answered_to, answering = pipes.enter_context(_pipe())
        printed_to, printing = pipes.enter_context(_pipe())
        errors_to, errors = (None, printing) if stderr is stdout else pipes.enter_context(_pipe())
        async with _supervisor(module, printing, errors, answering) as supervisor:
            for writing in {printing, errors, answering}:
                writing.close()
            drains = [_drain(printed_to, stdout), _drain(answered_to, answer)]
            drains += [] if errors_to is None else [_drain(errors_to, stderr)]
            reads = asyncio.gather(*drains, _feed(supervisor, header + b"\n" + call))
            try:
                status = await supervisor.wait()
                await asyncio.wait([reads], timeout=_GRACE)
            finally:
                await _end(supervisor)
                reads.cancel()
                await asyncio.wait([reads])
    if not answer.is_whole:
        raise ConfigError("the result is over 64 MB: store it and return its location")
    return ProcessExit(bytes(answer.beginning), status)


@functools.cache
def _protect_worker() -> None:
    """No other process of this account reads the worker's memory, environment or descriptors (/proc/<pid>, ptrace),
    and it leaves no core dump. A debugger needs root from here on. Linux only; landlock holds it once more.
    """
    if sys.platform == "linux":
        from noetl_activities.isolation import system

        system.prctl(system.PR_SET_DUMPABLE, 0)


@contextlib.contextmanager
def _pipe() -> Generator[tuple[FileIO, FileIO]]:
    """(reading end, writing end). Pipes of our own: asyncio's would keep ``wait`` until all who hold them are gone."""
    reading, writing = os.pipe()
    with FileIO(reading) as reader, FileIO(writing, "w") as writer:
        yield reader, writer


@contextlib.asynccontextmanager
async def _supervisor(module: str, printing: FileIO, errors: FileIO, answering: FileIO) -> AsyncGenerator[Process]:
    """Ended when left. One whose worker dies before the whole call is sent ends by itself."""
    start = _START.format(root=str(_ROOT), module=module)
    allowed = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-X", "utf8", "-c", start, str(answering.fileno())),
        stdin=PIPE,
        stdout=printing,
        stderr=errors,
        env={**allowed, "PYTHONIOENCODING": "utf-8"},
        pass_fds=(answering.fileno(),),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await _end(process)


async def _feed(supervisor: Process, text: bytes) -> None:
    """The pipe stays open: to the supervisor, its end is the end of the call."""
    assert supervisor.stdin is not None  # noqa: S101 - a pipe was asked for
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        supervisor.stdin.write(text)
        await supervisor.stdin.drain()


async def _end(supervisor: Process) -> None:
    """Tell the supervisor that the call is over; harmless when it has ended."""
    assert supervisor.stdin is not None  # noqa: S101 - a pipe was asked for
    supervisor.stdin.close()
    await supervisor.wait()


async def _drain(pipe: FileIO, captured: Captured) -> None:
    """Read to the end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while chunk := await reader.read(65536):
            captured.add(chunk)
    finally:
        transport.close()
