"""Running and waiting calls of a DuckDB process; both end when they are cancelled."""

from __future__ import annotations

import threading
from collections.abc import Generator, Hashable
from contextlib import contextmanager, suppress

from noetl_activities.duckdb_driver import duckdb

__all__ = ["CancelledCallError", "NamedLocks", "RunningCall"]


class CancelledCallError(Exception):
    """The call was cancelled."""


class NamedLocks:
    """Named locks, for the ledger of the file or one of its entries, whose waiters can be cancelled."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[Hashable] = set()

    @contextmanager
    def hold(self, name: Hashable, running: RunningCall) -> Generator[None]:
        """Hold the lock ``name``; waits until it is free. Raises CancelledCallError."""
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
        """Wake all waiters, to check whether their call was cancelled."""
        with self._changed:
            self._changed.notify_all()


class RunningCall:
    """One call. ``text`` is the worker's answer to an OutcomeNeeded message."""

    def __init__(self, turns: NamedLocks) -> None:
        self.turns = turns
        self.is_cancelled = False
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._answered = threading.Event()
        self._text = ""

    @contextmanager
    def using(self, connection: duckdb.DuckDBPyConnection) -> Generator[None]:
        """Interrupt statements of the connection if the call is cancelled."""
        self._connection = connection
        try:
            self.check()
            yield
        finally:
            self._connection = None

    @contextmanager
    def turn(self, name: Hashable) -> Generator[None]:
        """See NamedLocks.hold."""
        with self.turns.hold(name, self):
            yield

    def check(self) -> None:
        """Raise CancelledCallError when the call was cancelled."""
        if self.is_cancelled:
            raise CancelledCallError

    def cancel(self) -> None:
        """Interrupt the call. If called again, interrupt statements started in the meantime."""
        self.is_cancelled = True
        self._answered.set()
        self.turns.wake()
        connection = self._connection
        if connection is not None:
            with suppress(duckdb.Error):  # it is closed
                connection.interrupt()

    def answer(self, text: str) -> None:
        """Pass on the worker's answer."""
        self._text = text
        self._answered.set()

    def answered(self) -> str:
        """Wait for the worker's answer. Raises CancelledCallError."""
        self._answered.wait()
        self.check()
        return self._text
