"""The worker's side of a DuckDB process, which serves several calls at once.

SQL of playbooks runs in a separate process, which contains no secrets, in case DuckDB's own restrictions have gaps. The
process inherits three pipes and an allow-listed environment, and limits its memory and files (confinement.py).
It imports this package from the folder that the worker uses, never from its current folder.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path

import msgspec

from noetl_activities.duckdb.errors import PROCESS_ENDED, duckdb_error_kind
from noetl_activities.duckdb.location import DatabaseFile, allowed_directories_hint, memory_limit
from noetl_activities.duckdb.wire import (
    Call,
    Cancel,
    Done,
    Failed,
    Find,
    OutcomeNeeded,
    OutcomeText,
    Reply,
    Setup,
    Store,
    ToProcess,
    body_size,
    encode_frame,
)
from noetl_activities.errors import ConfigError
from noetl_activities.exit_status import exit_text
from noetl_activities.outcome import ErrorInfo, Outcome

__all__ = ["DuckdbProcess", "failure_outcome", "start_process"]

_INHERITED_VARIABLES = ("LANG", "LC_ALL", "TZ", "SYSTEMROOT")
_PACKAGE_ROOT = Path(__file__).parents[2]
"""The folder that this package is imported from."""

_MAX_INTERRUPTS = 10
_INTERRUPT_SECONDS = 0.5
"""How often a cancelled call is interrupted, and how long to wait each time, before the process is killed. Some calls
cannot be interrupted, such as reading a pipe in a directory.
"""

_STDERR_BYTES = 2048
"""Maximum size of the end of stderr that is stored for error messages."""

_FILE_ACCESS_REFUSED = "file system operations are disabled by configuration"
_HINTS = {
    "Loading external extensions is disabled": "only extensions built into DuckDB are available",
    "the configuration has been locked": "a playbook may not change this setting",
}


def failure_outcome(reply: Failed, file: DatabaseFile) -> Outcome:
    """Return the outcome of a call that failed in DuckDB. Raises ConfigError if the call is invalid."""
    if reply.code is None:
        raise ConfigError(reply.message)
    hints = {_FILE_ACCESS_REFUSED: allowed_directories_hint(file.directories), **_HINTS}
    hint = next((hint for phrase, hint in hints.items() if phrase in reply.message), None)
    text, blank, statement = reply.message.partition("\n\n")
    message = f"{text} ({hint}){blank}{statement}" if hint else reply.message
    return Outcome("error", error=ErrorInfo(duckdb_error_kind(reply.code), message, reply.code))


async def start_process(file: DatabaseFile) -> DuckdbProcess:
    """Start the process of a database. Raises ConfigError."""
    setup = Setup(file.database, file.directories, memory_limit())
    environment = {name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}
    try:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-X", "utf8", "-m", "noetl_activities.duckdb.child"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**environment, "PYTHONPATH": str(_PACKAGE_ROOT)},
            cwd=file.folder,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise ConfigError(f"the folder {file.folder} of the DuckDB file cannot be used: {error.strerror}") from error
    process = DuckdbProcess(child)
    await process.send(setup)
    return process


class DuckdbProcess:
    """A DuckDB process. ``has_ended``: it has ended, or is no longer usable."""

    def __init__(self, child: Process) -> None:
        self.has_ended = False
        self._child = child
        self._replies: dict[int, asyncio.Queue[Reply | None]] = {}
        self._stderr = bytearray()
        self._last_number = 0
        self._tasks = (asyncio.create_task(self._read_replies()), asyncio.create_task(self._read_stderr()))

    async def ask(
        self,
        create_message: Callable[[int], Call | Find | Store],
        encode_outcome: Callable[[Outcome], str] | None = None,
    ) -> Done | Failed:
        """Send the message that ``create_message`` returns for a call number, and return the reply.

        ``encode_outcome`` returns the text of an outcome in the ledger. Raises ConfigError if the call cannot be sent.
        Cancellation ends the call, or the process if the call cannot be interrupted.
        """
        self._last_number += 1
        number = self._last_number
        frame = _encode_message(create_message(number))
        self._replies[number] = asyncio.Queue()
        try:
            await self._write(frame)
            return await self._reply(number, encode_outcome)
        except BaseException:
            await self._stop_call(number)
            raise
        finally:
            del self._replies[number]

    async def _reply(self, number: int, encode_outcome: Callable[[Outcome], str] | None) -> Done | Failed:
        while (reply := await self._next_reply(number)) is not None:
            if not isinstance(reply, OutcomeNeeded):
                return reply
            await self.send(OutcomeText(number, encode_outcome(reply.outcome) if encode_outcome else ""))
        return Failed(number, await self._end_message(), PROCESS_ENDED)

    async def _next_reply(self, number: int) -> Reply | None:
        """Return the next reply to a call; None if the process has ended."""
        queue = self._replies[number]
        return None if self.has_ended and queue.empty() else await queue.get()

    async def _stop_call(self, number: int) -> None:
        """Interrupt the call until it has ended; kill the process if it does not end."""
        try:
            for _ in range(_MAX_INTERRUPTS):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_INTERRUPT_SECONDS):
                        await self.send(Cancel(number))
                        while isinstance(await self._next_reply(number), OutcomeNeeded):
                            pass
                        return
        except BaseException:
            self.kill()
            raise
        self.kill()

    async def send(self, message: ToProcess) -> None:
        """Send a message. Raises ConfigError if it cannot be encoded. If the process has ended, ``ask`` reports it."""
        await self._write(_encode_message(message))

    async def _write(self, frame: bytes) -> None:
        assert self._child.stdin is not None  # noqa: S101 - it was created with a pipe
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._child.stdin.write(frame)
            await self._child.stdin.drain()

    async def _read_replies(self) -> None:
        """Pass replies to the calls that wait for them. An invalid frame ends the process."""
        assert self._child.stdout is not None  # noqa: S101
        read = self._child.stdout.readexactly
        try:
            while True:
                body = await read(body_size(await read(4)))
                reply: Reply = msgspec.json.decode(body, type=Reply)
                if reply.number in self._replies:
                    self._replies[reply.number].put_nowait(reply)
        except (asyncio.IncompleteReadError, ValueError, RecursionError):
            self.kill()
        finally:
            self.has_ended = True
            for queue in self._replies.values():
                queue.put_nowait(None)

    async def _read_stderr(self) -> None:
        assert self._child.stderr is not None  # noqa: S101
        while part := await self._child.stderr.read(_STDERR_BYTES):
            self._stderr = (self._stderr + part)[-_STDERR_BYTES:]

    async def _end_message(self) -> str:
        status = await self._child.wait()
        await self._tasks[1]
        last_line = self._stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return ": ".join([f"the process that runs DuckDB ended ({exit_text(status)})", *last_line])

    def kill(self) -> None:
        """Kill the process. Uncommitted changes are rolled back when the file is opened again."""
        self.has_ended = True
        if self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)  # Process.kill may reap the child before Process.wait does

    async def close(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        assert self._child.stdin is not None  # noqa: S101
        self._child.stdin.close()
        await self._child.wait()
        await asyncio.gather(*self._tasks)


def _encode_message(message: ToProcess) -> bytes:
    try:
        return encode_frame(message)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the call cannot be passed to DuckDB: {error}") from error
