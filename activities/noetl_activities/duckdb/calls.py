"""The calls that run in a DuckDB process. Cancelling a call ends it, even if it waits for a lock."""

from __future__ import annotations

import threading
from collections.abc import Generator, Hashable
from contextlib import contextmanager, suppress

from noetl_activities.duckdb.driver import duckdb

__all__ = ["CancelledCallError", "NamedLocks", "RunningCall"]


class CancelledCallError(Exception):
    """The call was cancelled."""


class NamedLocks:
    """The locks of a database file, by name: one for its ledger, and one for each ledger entry in use.

    A call that waits for a lock can be cancelled.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[Hashable] = set()

    @contextmanager
    def hold(self, name: Hashable, call: RunningCall) -> Generator[None]:
        """Hold the lock ``name``; waits until it is free. Raises CancelledCallError."""
        with self._changed:
            self._changed.wait_for(lambda: call.is_cancelled or name not in self._held)
            call.raise_if_cancelled()
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
    """A call that runs in this process. The worker can cancel it, and sends it the text of its outcome on request."""

    def __init__(self, locks: NamedLocks) -> None:
        self.locks = locks
        self.is_cancelled = False
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._has_outcome_text = threading.Event()
        self._outcome_text = ""

    @contextmanager
    def interruptible(self, connection: duckdb.DuckDBPyConnection) -> Generator[None]:
        """Interrupt statements of the connection if the call is cancelled."""
        self._connection = connection
        try:
            self.raise_if_cancelled()
            yield
        finally:
            self._connection = None

    @contextmanager
    def hold_lock(self, name: Hashable) -> Generator[None]:
        """See NamedLocks.hold."""
        with self.locks.hold(name, self):
            yield

    def raise_if_cancelled(self) -> None:
        """Raise CancelledCallError if the call was cancelled."""
        if self.is_cancelled:
            raise CancelledCallError

    def cancel(self) -> None:
        """Interrupt the call. May be repeated, to interrupt a statement that it has started since."""
        self.is_cancelled = True
        self._has_outcome_text.set()
        self.locks.wake()
        connection = self._connection
        if connection is not None:
            with suppress(duckdb.Error):  # it is closed
                connection.interrupt()

    def receive_outcome_text(self, text: str) -> None:
        """Receive the text that the call asked for with OutcomeNeeded."""
        self._outcome_text = text
        self._has_outcome_text.set()

    def wait_for_outcome_text(self) -> str:
        """Wait for the text that the call asked for with OutcomeNeeded. Raises CancelledCallError."""
        self._has_outcome_text.wait()
        self.raise_if_cancelled()
        return self._outcome_text
