"""The worker's side of a DuckDB process, which serves several calls at once.

SQL of playbooks runs in a separate process, which contains no secrets, in case DuckDB's own restrictions have gaps. It
inherits three pipes and an allow-listed environment, limits its memory and files (duckdb_child.py), and imports modules
from where the worker does, never from its current folder.
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

from noetl_activities.duckdb_errors import PROCESS_ENDED, duckdb_error_kind
from noetl_activities.duckdb_location import DatabaseFile, allowed_directories_hint, memory_limit
from noetl_activities.duckdb_wire import (
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
    framed,
    size_of,
)
from noetl_activities.errors import ConfigError
from noetl_activities.exit_status import exit_text
from noetl_activities.outcome import ErrorInfo, Outcome

__all__ = ["DuckdbProcess", "failure_outcome", "start_process"]

_ENVIRONMENT = ("LANG", "LC_ALL", "TZ", "SYSTEMROOT")
_SOURCE = Path(__file__).parents[1]
"""The folder that this package is imported from."""

_INTERRUPTS = 10
_INTERRUPT_SECONDS = 0.5
"""How often a cancelled call is interrupted, and how long to wait each time, before the process is killed. Some calls
cannot be interrupted, such as reading a pipe in a directory.
"""

_STDERR_BYTES = 2048
"""Bytes of the process's stderr that are kept."""

_OUTSIDE = "file system operations are disabled by configuration"
_HINTS = {
    "Loading external extensions is disabled": "only extensions built into DuckDB are available",
    "the configuration has been locked": "a playbook may not change this setting",
}


def failure_outcome(reply: Failed, place: DatabaseFile) -> Outcome:
    """Return the outcome of a call that failed in DuckDB. Raises ConfigError if the call is invalid."""
    if reply.code is None:
        raise ConfigError(reply.message)
    hints = {_OUTSIDE: allowed_directories_hint(place.directories), **_HINTS}
    hint = next((hint for words, hint in hints.items() if words in reply.message), None)
    text, blank, statement = reply.message.partition("\n\n")
    message = f"{text} ({hint}){blank}{statement}" if hint else reply.message
    return Outcome("error", error=ErrorInfo(duckdb_error_kind(reply.code), message, reply.code))


async def start_process(place: DatabaseFile) -> DuckdbProcess:
    """Start the process of a database. Raises ConfigError."""
    setup = Setup(place.database, place.directories, memory_limit())
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    try:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-X", "utf8", "-m", "noetl_activities.duckdb_child"),
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env={**environment, "PYTHONPATH": str(_SOURCE)},
            cwd=place.folder,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError, PermissionError) as error:
        raise ConfigError(f"the folder {place.folder} of the DuckDB file cannot be used: {error.strerror}") from error
    process = DuckdbProcess(child)
    await process.send(setup)
    return process


class DuckdbProcess:
    """One process. ``has_ended`` once it has ended or is unusable."""

    def __init__(self, child: Process) -> None:
        self.has_ended = False
        self._child = child
        self._replies: dict[int, asyncio.Queue[Reply | None]] = {}
        self._stderr = bytearray()
        self._last_id = 0
        self._tasks = (asyncio.create_task(self._read_replies()), asyncio.create_task(self._read_stderr()))

    async def ask(
        self, message: Callable[[int], Call | Find | Store], encode_outcome: Callable[[Outcome], str] | None = None
    ) -> Done | Failed:
        """Send the message that ``message`` creates for a call number, and return the reply. ``encode_outcome`` is for
        the ledger. Raises ConfigError if the call cannot be sent. Cancellation ends the call, or else the process.
        """
        self._last_id += 1
        number = self._last_id
        frame = _frame(message(number))
        self._replies[number] = asyncio.Queue()
        try:
            await self._write(frame)
            return await self._reply(number, encode_outcome)
        except BaseException:
            await self._stop(number)
            raise
        finally:
            del self._replies[number]

    async def _reply(self, number: int, encode_outcome: Callable[[Outcome], str] | None) -> Done | Failed:
        while (reply := await self._next(number)) is not None:
            if not isinstance(reply, OutcomeNeeded):
                return reply
            await self.send(OutcomeText(number, encode_outcome(reply.outcome) if encode_outcome else ""))
        return Failed(number, await self._end(), PROCESS_ENDED)

    async def _next(self, number: int) -> Reply | None:
        """Return the next reply to a call; None if the process has ended."""
        queue = self._replies[number]
        return None if self.has_ended and queue.empty() else await queue.get()

    async def _stop(self, number: int) -> None:
        """Interrupt the call until it has ended; kill the process if it does not end."""
        try:
            for _ in range(_INTERRUPTS):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_INTERRUPT_SECONDS):
                        await self.send(Cancel(number))
                        while isinstance(await self._next(number), OutcomeNeeded):
                            pass
                        return
        except BaseException:
            self.kill()
            raise
        self.kill()

    async def send(self, message: ToProcess) -> None:
        """Send a message. Raises ConfigError if it cannot be sent. If the process has ended, waiting for the reply
        reports that.
        """
        await self._write(_frame(message))

    async def _write(self, frame: bytes) -> None:
        assert self._child.stdin is not None  # noqa: S101 - a pipe was asked for
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._child.stdin.write(frame)
            await self._child.stdin.drain()

    async def _read_replies(self) -> None:
        """Pass replies to the calls that wait for them. An invalid frame ends the process."""
        assert self._child.stdout is not None  # noqa: S101
        read = self._child.stdout.readexactly
        try:
            while True:
                body = await read(size_of(await read(4)))
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

    async def _end(self) -> str:
        status = await self._child.wait()
        await self._tasks[1]
        last_line = self._stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return ": ".join([f"the process that runs DuckDB ended ({exit_text(status)})", *last_line])

    def kill(self) -> None:
        """Kill the process. Uncommitted changes are rolled back when the file is opened again."""
        self.has_ended = True
        if self._child.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._child.pid, signal.SIGKILL)  # Process.kill may take the exit status from who waits

    async def close(self) -> None:
        """End the process and wait until it is gone."""
        self.kill()
        assert self._child.stdin is not None  # noqa: S101
        self._child.stdin.close()
        await self._child.wait()
        await asyncio.gather(*self._tasks)


def _frame(message: ToProcess) -> bytes:
    try:
        return framed(message)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the call cannot be passed to DuckDB: {error}") from error
