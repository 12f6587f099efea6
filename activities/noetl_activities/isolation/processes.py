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
from noetl_activities.isolation.settings import read_settings
from noetl_activities.tool import OutputStream

__all__ = ["OutputHandler", "ProcessExit", "run_task"]

_INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "TZ", "VIRTUAL_ENV")
"""The variables that a task inherits from the worker. HOME and TMPDIR are set to the folder of the task."""

_PACKAGE_ROOT = Path(__file__).parents[2]
_BOOTSTRAP = "import sys; sys.path.insert(0, {root!r}); from {module} import main; del sys.path[0]; main()"
"""Imports the package from the folder that the worker uses. The folder is then removed from the path, so that the task
cannot import other modules in it. With -P, modules in the worker's current folder are not imported either.
"""

_MAX_OUTPUT_BYTES = 64 * 1024
_MAX_RESPONSE_BYTES = 64 * 1024 * 1024
_GRACE_SECONDS = 1.0
"""Seconds to read the rest of the pipes after the supervisor has ended."""


OutputHandler: TypeAlias = Callable[[OutputStream, str], None]
"""A function that receives the output of the task while it runs."""


class ProcessExit(NamedTuple):
    """How the process of a call ended.

    ``output_start`` is the beginning of its stdout and stderr. ``status`` is its exit status, -9 for signal 9.
    """

    output_start: str
    response: bytes
    status: int


async def run_task(module: str, call: bytes, on_output: OutputHandler) -> ProcessExit:
    """Run ``main`` of ``module``, which calls ``supervisor.start_task`` and responds on descriptor ``argv[1]``.

    Cancellation ends the task and all processes that it has started. Raises ConfigError for a response over 64 MB.
    """
    _protect_worker()
    header = json.dumps({"size": len(call), **read_settings(os.environ)}).encode()
    with (
        _open_pipe() as (out, out_writer),
        _open_pipe() as (err, err_writer),
        _open_pipe() as (response_reader, response_writer),
    ):
        async with _start_supervisor(
            module, out_writer.fileno(), err_writer.fileno(), response_writer.fileno()
        ) as supervisor:
            for writer in (out_writer, err_writer, response_writer):
                writer.close()
            output_start, response = bytearray(), bytearray()
            pipe_reads = (
                _read_to_end(out, _collect_output("stdout", output_start, on_output)),
                _read_to_end(err, _collect_output("stderr", output_start, on_output)),
                _read_to_end(response_reader, _collect_beginning(response, _MAX_RESPONSE_BYTES + 1)),
            )
            reads = asyncio.gather(*pipe_reads, _send_call(supervisor, header + b"\n" + call))
            try:
                status = await supervisor.wait()
                await asyncio.wait([reads], timeout=_GRACE_SECONDS)
            finally:
                await _end_call(supervisor)  # the reads may end only now, as its children hold the pipes
                reads.cancel()
                await asyncio.wait([reads])
    if len(response) > _MAX_RESPONSE_BYTES:
        raise ConfigError("the result is over 64 MB: store it and return its location")
    return ProcessExit(output_start.decode("utf-8", "replace"), bytes(response), status)


@functools.cache
def _protect_worker() -> None:
    """Prevent other processes of this account from reading the worker's memory, environment or descriptors
    (/proc/<pid>, ptrace), and disable core dumps. Debuggers then need root. Linux only; landlock restricts tasks too.
    """
    if sys.platform == "linux":
        from noetl_activities.isolation import system

        system.prctl(system.PR_SET_DUMPABLE, 0)


@contextlib.contextmanager
def _open_pipe() -> Generator[tuple[FileIO, FileIO]]:
    """Yield (reader, writer) of a pipe. With pipes of asyncio, ``wait`` would block until all writers are closed."""
    read_end, write_end = os.pipe()
    with FileIO(read_end) as reader, FileIO(write_end, "w") as writer:
        yield reader, writer


@contextlib.asynccontextmanager
async def _start_supervisor(module: str, out: int, err: int, response_writer: int) -> AsyncGenerator[Process]:
    """Start a supervisor; it ends with the block. If the worker dies before it has sent the call, it exits."""
    bootstrap = _BOOTSTRAP.format(root=str(_PACKAGE_ROOT), module=module)
    environment = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-X", "utf8", "-c", bootstrap, str(response_writer)),
        stdin=PIPE,
        stdout=out,
        stderr=err,
        env={**environment, "PYTHONIOENCODING": "utf-8"},
        pass_fds=(response_writer,),
        start_new_session=True,
    )
    try:
        yield process
    finally:
        await _end_call(process)


async def _send_call(supervisor: Process, data: bytes) -> None:
    """Send the call and keep the pipe open: closing it would end the call."""
    assert supervisor.stdin is not None  # noqa: S101 - it was created with a pipe
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        supervisor.stdin.write(data)
        await supervisor.stdin.drain()


async def _end_call(supervisor: Process) -> None:
    """Tell the supervisor to end the call. Has no effect if it has exited."""
    assert supervisor.stdin is not None  # noqa: S101 - it was created with a pipe
    supervisor.stdin.close()
    await supervisor.wait()


async def _read_to_end(pipe: FileIO, consume: Callable[[bytes], None]) -> None:
    """Pass the bytes of a pipe to ``consume`` until its end."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while chunk := await reader.read(65536):
            consume(chunk)
    finally:
        transport.close()


def _collect_beginning(buffer: bytearray, limit: int) -> Callable[[bytes], None]:
    def consume(chunk: bytes) -> None:
        buffer.extend(chunk[: max(0, limit - len(buffer))])

    return consume


def _collect_output(stream: OutputStream, buffer: bytearray, on_output: OutputHandler) -> Callable[[bytes], None]:
    """Pass output to ``on_output``, and collect the start of both streams in ``buffer`` in the order of arrival."""

    collect, decoder = _collect_beginning(buffer, _MAX_OUTPUT_BYTES), codecs.getincrementaldecoder("utf-8")("replace")

    def consume(chunk: bytes) -> None:
        collect(chunk)
        on_output(stream, decoder.decode(chunk))

    return consume
