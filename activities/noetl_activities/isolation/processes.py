"""Runs one call in a sandboxed process: the worker's side of ``supervisor``."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import functools
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable, Generator
from io import FileIO
from pathlib import Path
from typing import NamedTuple, TypeAlias

from noetl_activities.errors import ConfigError
from noetl_activities.isolation.settings import settings_of
from noetl_activities.tool import OutputStream

__all__ = ["Output", "ProcessExit", "run_task"]

_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV")
"""Variables that a task inherits from the worker. HOME and TMPDIR are its own folder."""

_ROOT = Path(__file__).parents[2]
_START = "import sys; sys.path.insert(0, {root!r}); from {module} import main; del sys.path[0]; main()"
"""Imports the package from where the worker has it. Its folder is removed from the path again, so that the task cannot
import its neighbours; modules in the worker's current folder are not imported (-P).
"""

_MAX_PRINTED = 64 * 1024
_MAX_ANSWER = 64 * 1024 * 1024
_GRACE = 1.0
"""Seconds to read the rest of the pipes after the supervisor has ended."""


Output: TypeAlias = Callable[[OutputStream, str], None]
"""Receives output of the task, as it is printed."""


class ProcessExit(NamedTuple):
    """The output of a call (its beginning), its response, and its exit status, -9 for signal 9."""

    printed: str
    answer: bytes
    status: int


async def run_task(module: str, call: bytes, output: Output) -> ProcessExit:
    """Run ``main`` of ``module``, which calls ``supervisor.start_task`` and responds on descriptor ``argv[1]``.

    Cancellation ends the task and all that it has started. Raises ConfigError for a response over 64 MB.
    """
    _protect_worker()
    header = json.dumps({"size": len(call), **settings_of(os.environ)}).encode()
    with _pipe() as (out, to_out), _pipe() as (err, to_err), _pipe() as (answered, answering):
        async with _supervisor(module, to_out.fileno(), to_err.fileno(), answering.fileno()) as supervisor:
            for writing in (to_out, to_err, answering):
                writing.close()
            printed, answer = bytearray(), bytearray()
            drains = (
                _drain(out, _printed("stdout", printed, output)),
                _drain(err, _printed("stderr", printed, output)),
                _drain(answered, _beginning(answer, _MAX_ANSWER + 1)),
            )
            reads = asyncio.gather(*drains, _feed(supervisor, header + b"\n" + call))
            try:
                status = await supervisor.wait()
                await asyncio.wait([reads], timeout=_GRACE)
            finally:
                await _end(supervisor)
                reads.cancel()
                await asyncio.wait([reads])
    if len(answer) > _MAX_ANSWER:
        raise ConfigError("the result is over 64 MB: store it and return its location")
    return ProcessExit(printed.decode("utf-8", "replace"), bytes(answer), status)


@functools.cache
def _protect_worker() -> None:
    """Prevent other processes of this account from reading the worker's memory, environment or descriptors
    (/proc/<pid>, ptrace), and disable core dumps. Debuggers then need root. Linux only; landlock restricts tasks too.
    """
    if sys.platform == "linux":
        from noetl_activities.isolation import system

        system.prctl(system.PR_SET_DUMPABLE, 0)


@contextlib.contextmanager
def _pipe() -> Generator[tuple[FileIO, FileIO]]:
    """A pipe as (reader, writer). asyncio's own pipes are not used, as ``wait`` would block until all writers close."""
    reading, writing = os.pipe()
    with FileIO(reading) as reader, FileIO(writing, "w") as writer:
        yield reader, writer


@contextlib.asynccontextmanager
async def _supervisor(module: str, out: int, err: int, answering: int) -> AsyncGenerator[Process]:
    """Start a supervisor, and end it with the block. If the worker dies before it has sent the call, it exits."""
    start = _START.format(root=str(_ROOT), module=module)
    allowed = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-X", "utf8", "-c", start, str(answering)),
        stdin=PIPE,
        stdout=out,
        stderr=err,
        env={**allowed, "PYTHONIOENCODING": "utf-8"},
        pass_fds=(answering,),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await _end(process)


async def _feed(supervisor: Process, text: bytes) -> None:
    """Send the call and keep the pipe open: closing it would end the call."""
    assert supervisor.stdin is not None  # noqa: S101 - a pipe was asked for
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        supervisor.stdin.write(text)
        await supervisor.stdin.drain()


async def _end(supervisor: Process) -> None:
    """Tell the supervisor to end the call; has no effect if it has exited."""
    assert supervisor.stdin is not None  # noqa: S101 - a pipe was asked for
    supervisor.stdin.close()
    await supervisor.wait()


async def _drain(pipe: FileIO, take: Callable[[bytes], None]) -> None:
    """Read to the end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while chunk := await reader.read(65536):
            take(chunk)
    finally:
        transport.close()


def _beginning(kept: bytearray, limit: int) -> Callable[[bytes], None]:
    def take(chunk: bytes) -> None:
        kept.extend(chunk[: max(0, limit - len(kept))])

    return take


def _printed(stream: OutputStream, kept: bytearray, output: Output) -> Callable[[bytes], None]:
    """Keep the beginning of both streams, in the order of arrival, and pass all output on."""
    keep, decoder = _beginning(kept, _MAX_PRINTED), codecs.getincrementaldecoder("utf-8")("replace")

    def take(chunk: bytes) -> None:
        keep(chunk)
        output(stream, decoder.decode(chunk))

    return take
