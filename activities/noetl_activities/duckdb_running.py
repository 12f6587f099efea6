"""Calls that run in a DuckDB process, and those that wait for their turn there; both end when they are cancelled."""

from __future__ import annotations

import threading
from collections.abc import Generator, Hashable
from contextlib import contextmanager, suppress

from noetl_activities.duckdb_driver import duckdb

__all__ = ["CancelledCallError", "Running", "Turns"]


class CancelledCallError(Exception):
    """Nobody waits for the call any more."""


class Turns:
    """What calls hold in turn: the ledger of the file, or an entry of it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[Hashable] = set()

    @contextmanager
    def hold(self, name: Hashable, running: Running) -> Generator[None]:
        """Wait until nobody has it, and have it. Raises CancelledCallError."""
        with self._changed:
            self._changed.wait_for(lambda: running.is_cancelled or name not in self._held)
            running.check()
            self._held.add(name)
        try:
            yield
        finally:
            with self._changed:
                self._held.discard(name)
                self._changed.notify_all()

    def wake(self) -> None:
        """Let those look who wait: a call was cancelled."""
        with self._changed:
            self._changed.notify_all()


class Running:
    """One call. ``text`` is set with what the worker answers to Noting."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.is_cancelled = False
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._answered = threading.Event()
        self._text = ""

    @contextmanager
    def using(self, connection: duckdb.DuckDBPyConnection) -> Generator[None]:
        """What is executed on the connection is interrupted when the call is cancelled."""
        self._connection = connection
        try:
            self.check()
            yield
        finally:
            self._connection = None

    @contextmanager
    def turn(self, name: Hashable) -> Generator[None]:
        """See Turns.hold."""
        with self.turns.hold(name, self):
            yield

    def check(self) -> None:
        """Raise CancelledCallError when the call was cancelled."""
        if self.is_cancelled:
            raise CancelledCallError

    def cancel(self) -> None:
        """Interrupt it, wherever it is. Asked again, interrupt what was begun in the meantime."""
        self.is_cancelled = True
        self._answered.set()
        self.turns.wake()
        connection = self._connection
        if connection is not None:
            with suppress(duckdb.Error):  # it is closed
                connection.interrupt()

    def answer(self, text: str) -> None:
        """Hand over the worker's answer."""
        self._text = text
        self._answered.set()

    def answered(self) -> str:
        """Wait for the worker's answer. Raises CancelledCallError."""
        self._answered.wait()
        self.check()
        return self._text
