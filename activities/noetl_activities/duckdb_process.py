"""A DuckDB process as the worker sees it: started, asked by several calls at once, ended.

SQL of playbooks runs there and not in the worker: whatever DuckDB's own guards miss, that process has no secrets. It
inherits three pipes and an environment by allow-list, limits its memory and files (duckdb_child.py), and imports what
the worker imports, never from the folder that it runs in.
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
from noetl_activities.duckdb_place import DatabaseFile, allowed_directories_hint, memory_limit
from noetl_activities.duckdb_wire import (
    Call,
    Cancel,
    Done,
    Failed,
    Find,
    Keep,
    Noting,
    Reply,
    Setup,
    Store,
    ToProcess,
    framed,
    size_of,
)
from noetl_activities.errors import ConfigError
from noetl_activities.exit_status import exit_words
from noetl_activities.outcome import ErrorInfo, Outcome

__all__ = ["DuckdbProcess", "failed", "started"]

_ENVIRONMENT = ("LANG", "LC_ALL", "TZ", "SYSTEMROOT")
_SOURCE = Path(__file__).parents[1]
"""Where this package is imported from."""

_INTERRUPTS = 10
_INTERRUPT_SECONDS = 0.5
"""How often a cancelled call is interrupted, and how long it is waited for each time, before the process is killed:
a read of a pipe in a directory, for one, cannot be interrupted.
"""

_TOLD = 2048
"""Bytes of the process's last words that are kept."""

_OUTSIDE = "file system operations are disabled by configuration"
_HINTS = {
    "Loading external extensions is disabled": "only extensions built into DuckDB are available",
    "the configuration has been locked": "a playbook may not change this setting",
}


def failed(reply: Failed, place: DatabaseFile) -> Outcome:
    """The outcome of a call that DuckDB refused. Raises ConfigError where the call is wrong."""
    if reply.code is None:
        raise ConfigError(reply.message)
    hints = {_OUTSIDE: allowed_directories_hint(place.directories), **_HINTS}
    hint = next((hint for words, hint in hints.items() if words in reply.message), None)
    told, blank, statement = reply.message.partition("\n\n")
    message = f"{told} ({hint}){blank}{statement}" if hint else reply.message
    return Outcome("error", error=ErrorInfo(duckdb_error_kind(reply.code), message, reply.code))


async def started(place: DatabaseFile) -> DuckdbProcess:
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
    """One process. ``is_over`` when it answers no more."""

    def __init__(self, child: Process) -> None:
        self.is_over = False
        self._child = child
        self._replies: dict[int, asyncio.Queue[Reply | None]] = {}
        self._told = bytearray()
        self._last_id = 0
        self._tasks = (asyncio.create_task(self._read()), asyncio.create_task(self._listen()))

    async def ask(
        self, message: Callable[[int], Call | Find | Store], text: Callable[[Outcome], str] | None = None
    ) -> Done | Failed:
        """Make the call that ``message`` gives for a number. ``text`` says what the ledger keeps of an outcome. Raises
        ConfigError for a call that cannot be sent. Cancelled, it ends the call, or else the process.
        """
        self._last_id += 1
        number = self._last_id
        frame = _frame(message(number))
        self._replies[number] = asyncio.Queue()
        try:
            await self._write(frame)
            return await self._reply(number, text)
        except BaseException:
            await self._stop(number)
            raise
        finally:
            del self._replies[number]

    async def _reply(self, number: int, text: Callable[[Outcome], str] | None) -> Done | Failed:
        while (reply := await self._next(number)) is not None:
            if not isinstance(reply, Noting):
                return reply
            await self.send(Keep(number, text(reply.outcome) if text else ""))
        return Failed(number, await self._end(), PROCESS_ENDED)

    async def _next(self, number: int) -> Reply | None:
        """None when the process is over."""
        queue = self._replies[number]
        return None if self.is_over and queue.empty() else await queue.get()

    async def _stop(self, number: int) -> None:
        """Interrupt the call until it has ended; kill the process when it does not end."""
        try:
            for _ in range(_INTERRUPTS):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_INTERRUPT_SECONDS):
                        await self.send(Cancel(number))
                        while isinstance(await self._next(number), Noting):
                            pass
                        return
        except BaseException:
            self.kill()
            raise
        self.kill()

    async def send(self, message: ToProcess) -> None:
        """Send a message. Raises ConfigError for what cannot be sent. Who is gone reads nothing, which is found when
        its answer is awaited.
        """
        await self._write(_frame(message))

    async def _write(self, frame: bytes) -> None:
        assert self._child.stdin is not None  # noqa: S101 - a pipe was asked for
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._child.stdin.write(frame)
            await self._child.stdin.drain()

    async def _read(self) -> None:
        """Hand out replies to the calls that wait for them. A frame that is none ends the process."""
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
            self.is_over = True
            for queue in self._replies.values():
                queue.put_nowait(None)

    async def _listen(self) -> None:
        assert self._child.stderr is not None  # noqa: S101
        while told := await self._child.stderr.read(_TOLD):
            self._told = (self._told + told)[-_TOLD:]

    async def _end(self) -> str:
        status = await self._child.wait()
        await self._tasks[1]
        told = self._told.decode("utf-8", "replace").strip().splitlines()[-1:]
        return ": ".join([f"the process that runs DuckDB ended ({exit_words(status)})", *told])

    def kill(self) -> None:
        """End the process at once. What it has not committed is undone when the file is opened again."""
        self.is_over = True
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
