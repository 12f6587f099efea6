"""The DuckDB process: runs the calls of one database. Started by duckdb_process.py as a module.

Each call has a thread, and the main thread reads. DuckDB releases the GIL while it works, so a cancel is read at any
time, and so is the end of the worker: its end of the pipe is then closed, and this process exits immediately. It starts
no processes that could remain.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import BinaryIO

from noetl_activities.duckdb_calls import CancelledCallError, NamedLocks, RunningCall
from noetl_activities.duckdb_confinement import confine
from noetl_activities.duckdb_driver import duckdb
from noetl_activities.duckdb_instance import Instance
from noetl_activities.duckdb_once import LEDGER, run_once, stores_outcome
from noetl_activities.duckdb_statements import outcome_of, run_statements
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
    framed,
    read_frame,
)
from noetl_activities.errors import ConfigError
from noetl_activities.once import LedgerSlot, OnceResult
from noetl_activities.outcome import Outcome
from noetl_activities.sinks import duckdb_ledger as ledger
from noetl_activities.sinks.duckdb_rows import store


def main() -> None:
    """Serve until the worker closes the pipe."""
    reading, writing = _taken(0, os.O_RDONLY, "rb"), _taken(1, os.O_WRONLY, "wb")
    try:
        setup = read_frame(reading)
        if isinstance(setup, Setup):
            confine(setup.directories, setup.memory)
            service = Service(setup, writing)
            while (message := read_frame(reading)) is not None:
                service.take(message)
    except BaseException:
        import traceback  # slow to import, and seldom needed

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # also while calls run


def _taken(descriptor: int, flags: int, mode: str) -> BinaryIO:
    """Take over the pipe of this descriptor and replace it by /dev/null, so that libraries cannot print into it."""
    kept = os.dup(descriptor)
    null = os.open(os.devnull, flags)
    os.dup2(null, descriptor)
    os.close(null)
    return os.fdopen(kept, mode)  # type: ignore[return-value]


class Service:
    """The calls of this process."""

    def __init__(self, setup: Setup, out: BinaryIO) -> None:
        self._setup = setup
        self._instance = Instance(setup)
        self._turns = NamedLocks()
        self._running: dict[int, RunningCall] = {}
        self._out = out
        self._sending = threading.Lock()

    def take(self, message: Setup | Call | Find | Store | OutcomeText | Cancel) -> None:
        """Handle a message of the worker, without waiting for its end."""
        if isinstance(message, Setup):
            return
        running = self._running.get(message.number)
        if isinstance(message, Call | Find | Store):
            running = self._running[message.number] = RunningCall(self._turns)
            threading.Thread(target=self._serve, args=(message, running), daemon=True).start()
        elif running is not None and isinstance(message, OutcomeText):
            running.answer(message.text)
        elif running is not None:
            running.cancel()

    def _serve(self, message: Call | Find | Store, running: RunningCall) -> None:
        try:
            reply: Reply = self._reply(message, running)
        finally:
            del self._running[message.number]
        try:
            self._send(reply)
        except (ValueError, RecursionError, MemoryError) as error:
            self._send(Failed(message.number, f"the result cannot be converted: {_words(error)}"))

    def _reply(self, message: Call | Find | Store, running: RunningCall) -> Reply:
        try:
            with self._instance.connection() as connection, running.using(connection):
                return self._performed(message, connection, running)
        except duckdb.Error as error:
            return Failed(message.number, str(error), type(error).__name__)
        except CancelledCallError:
            return Failed(message.number, "cancelled")
        except ConfigError as error:
            return Failed(message.number, str(error))
        except Exception as error:  # of what Python makes of a value: too deep, too large, no valid date
            return Failed(message.number, f"the result cannot be read: {_words(error)}", type(error).__name__)

    def _performed(
        self, message: Call | Find | Store, connection: duckdb.DuckDBPyConnection, running: RunningCall
    ) -> Reply:
        if isinstance(message, Find):
            return Done(message.number, text=ledger.find(connection, message.key, message.n))
        if isinstance(message, Call):
            return Done(message.number, answer=self._called(message, connection, running))
        with running.turn(LEDGER):
            return Done(message.number, stored=store(connection, message, running))

    def _called(self, call: Call, connection: duckdb.DuckDBPyConnection, running: RunningCall) -> OnceResult:
        def run() -> Outcome:
            results = run_statements(connection, call.statements, call.params, running)
            return outcome_of(results, self._setup.database)

        def text(outcome: Outcome) -> str:
            self._send(OutcomeNeeded(call.number, outcome))
            return running.answered()

        if call.key is None or not stores_outcome(connection, call.statements):
            return OnceResult(run())
        return run_once(connection, run, LedgerSlot(call.key, call.n, text), running)

    def _send(self, reply: Reply) -> None:
        frame = framed(reply)
        with self._sending:
            self._out.write(frame)
            self._out.flush()


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


if __name__ == "__main__":
    main()
