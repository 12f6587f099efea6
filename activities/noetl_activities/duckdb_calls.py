"""The calls of a DuckDB process. A call ends when it is cancelled, whether it runs or waits for a lock."""

from __future__ import annotations

import threading
from collections.abc import Generator, Hashable
from contextlib import contextmanager, suppress

from noetl_activities.duckdb_driver import duckdb

__all__ = ["CancelledCallError", "NamedLocks", "RunningCall"]


class CancelledCallError(Exception):
    """The call was cancelled."""


class NamedLocks:
    """Locks by name, for the ledger of the file or one of its entries. Calls that wait for one can be cancelled."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[Hashable] = set()

    @contextmanager
    def hold(self, name: Hashable, call: RunningCall) -> Generator[None]:
        """Hold the lock ``name``; waits until it is free. Raises CancelledCallError."""
        with self._changed:
            self._changed.wait_for(lambda: call.is_cancelled or name not in self._held)
            call.check()
            self._held.add(name)
        try:
            yield
        finally:
            with self._changed:
                self._held.discard(name)
                self._changed.notify_all()

    def wake(self) -> None:
        """Wake all waiting calls, which then check whether they were cancelled."""
        with self._changed:
            self._changed.notify_all()


class RunningCall:
    """One call, which the worker can cancel, or answer when it waits for the text of its outcome."""

    def __init__(self, locks: NamedLocks) -> None:
        self.locks = locks
        self.is_cancelled = False
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._answered = threading.Event()
        self._text = ""

    @contextmanager
    def interruptible(self, connection: duckdb.DuckDBPyConnection) -> Generator[None]:
        """Interrupt statements of the connection if the call is cancelled."""
        self._connection = connection
        try:
            self.check()
            yield
        finally:
            self._connection = None

    @contextmanager
    def hold_lock(self, name: Hashable) -> Generator[None]:
        """See NamedLocks.hold."""
        with self.locks.hold(name, self):
            yield

    def check(self) -> None:
        """Raise CancelledCallError if the call was cancelled."""
        if self.is_cancelled:
            raise CancelledCallError

    def cancel(self) -> None:
        """Interrupt the call. May be repeated, to interrupt a statement that it has started since."""
        self.is_cancelled = True
        self._answered.set()
        self.locks.wake()
        connection = self._connection
        if connection is not None:
            with suppress(duckdb.Error):  # it is closed
                connection.interrupt()

    def receive_answer(self, text: str) -> None:
        """Receive the worker's answer to an OutcomeNeeded message."""
        self._text = text
        self._answered.set()

    def wait_for_answer(self) -> str:
        """Wait for the answer to an OutcomeNeeded message, and return it. Raises CancelledCallError."""
        self._answered.wait()
        self.check()
        return self._text
