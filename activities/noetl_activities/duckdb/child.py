"""The DuckDB process: runs the calls of one database. Started by process.py as a module.

Each call has a thread; the main thread reads messages. DuckDB releases the GIL while it works, so a Cancel is read at
any time. When the worker ends, its end of the pipe is closed, and this process exits immediately. It starts no other
processes.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import BinaryIO

from noetl_activities.duckdb.calls import CancelledCallError, NamedLocks, RunningCall
from noetl_activities.duckdb.confinement import confine
from noetl_activities.duckdb.driver import duckdb
from noetl_activities.duckdb.instance import Instance
from noetl_activities.duckdb.ledger_transaction import LEDGER, run_with_ledger, stores_outcome
from noetl_activities.duckdb.statements import outcome_of, run_statements
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
    encode_frame,
    read_frame,
)
from noetl_activities.errors import ConfigError
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot
from noetl_activities.sinks import duckdb_ledger as ledger
from noetl_activities.sinks.duckdb_rows import store


def main() -> None:
    """Serve until the worker closes the pipe."""
    messages, replies = _take_over_pipe(0, os.O_RDONLY, "rb"), _take_over_pipe(1, os.O_WRONLY, "wb")
    try:
        setup = read_frame(messages)
        if isinstance(setup, Setup):
            confine(setup.directories, setup.memory)
            server = CallServer(setup, replies)
            while (message := read_frame(messages)) is not None:
                server.handle(message)
    except BaseException:
        import traceback  # slow to import, and seldom needed

        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)  # also while calls run


def _take_over_pipe(descriptor: int, flags: int, mode: str) -> BinaryIO:
    """Return the pipe at this descriptor, and replace it there by /dev/null, so that libraries cannot write to it."""
    pipe = os.dup(descriptor)
    null = os.open(os.devnull, flags)
    os.dup2(null, descriptor)
    os.close(null)
    return os.fdopen(pipe, mode)  # type: ignore[return-value]


class CallServer:
    """Runs the calls that the worker sends, each in a thread."""

    def __init__(self, setup: Setup, replies: BinaryIO) -> None:
        self._setup = setup
        self._instance = Instance(setup)
        self._locks = NamedLocks()
        self._running_calls: dict[int, RunningCall] = {}
        self._replies = replies
        self._send_lock = threading.Lock()

    def handle(self, message: Setup | Call | Find | Store | OutcomeText | Cancel) -> None:
        """Handle a message of the worker. Calls run in the background."""
        if isinstance(message, Setup):
            return
        running_call = self._running_calls.get(message.number)
        if isinstance(message, Call | Find | Store):
            running_call = self._running_calls[message.number] = RunningCall(self._locks)
            threading.Thread(target=self._serve, args=(message, running_call), daemon=True).start()
        elif running_call is not None and isinstance(message, OutcomeText):
            running_call.receive_outcome_text(message.text)
        elif running_call is not None:
            running_call.cancel()

    def _serve(self, message: Call | Find | Store, running_call: RunningCall) -> None:
        try:
            reply: Reply = self._reply(message, running_call)
        finally:
            del self._running_calls[message.number]
        try:
            self._send(reply)
        except (ValueError, RecursionError, MemoryError) as error:
            self._send(Failed(message.number, f"the result cannot be converted: {_error_text(error)}"))

    def _reply(self, message: Call | Find | Store, running_call: RunningCall) -> Reply:
        try:
            with self._instance.connection() as connection, running_call.interruptible(connection):
                return self._perform(message, connection, running_call)
        except duckdb.Error as error:
            return Failed(message.number, str(error), type(error).__name__)
        except CancelledCallError:
            return Failed(message.number, "cancelled")
        except ConfigError as error:
            return Failed(message.number, str(error))
        except Exception as error:  # a value that Python cannot represent: too deep, too large, an invalid date
            return Failed(message.number, f"the result cannot be read: {_error_text(error)}", type(error).__name__)

    def _perform(
        self, message: Call | Find | Store, connection: duckdb.DuckDBPyConnection, running_call: RunningCall
    ) -> Reply:
        if isinstance(message, Find):
            return Done(message.number, text=ledger.find_outcome(connection, message.key, message.repetition))
        if isinstance(message, Call):
            return Done(message.number, call_result=self._run_call(message, connection, running_call))
        with running_call.hold_lock(LEDGER):
            return Done(message.number, store_result=store(connection, message, running_call))

    def _run_call(self, call: Call, connection: duckdb.DuckDBPyConnection, running_call: RunningCall) -> LedgerResult:
        def run() -> Outcome:
            results = run_statements(connection, call.statements, call.params, running_call)
            return outcome_of(results, self._setup.database)

        def encode_outcome(outcome: Outcome) -> str:
            self._send(OutcomeNeeded(call.number, outcome))
            return running_call.wait_for_outcome_text()

        if call.key is None or not stores_outcome(connection, call.statements):
            return LedgerResult(run())
        return run_with_ledger(connection, run, LedgerSlot(call.key, call.repetition, encode_outcome), running_call)

    def _send(self, reply: Reply) -> None:
        frame = encode_frame(reply)
        with self._send_lock:
            self._replies.write(frame)
            self._replies.flush()


def _error_text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".removesuffix(": ")


if __name__ == "__main__":
    main()
