"""The protocol between the worker and its DuckDB processes: JSON messages in frames over stdin and stdout.

    worker                                   DuckDB process
    Setup ───────────────────────────────►   limits itself
    Call | Find | Store ─────────────────►   runs it in a thread
           ◄────────────── OutcomeNeeded     has run the statements, and needs the text of the outcome for the ledger
    OutcomeText ─────────────────────────►   stores the text, commits
           ◄───────────── Done | Failed      ends the call of that number
    Cancel ──────────────────────────────►   interrupts the call, which then fails

Calls of one process run concurrently, identified by ``number``. A frame is its length in four bytes, then the JSON.
"""

from __future__ import annotations

from typing import Any, BinaryIO, TypeAlias

import msgspec

from noetl_activities.outcome import Json, Outcome
from noetl_activities.outcome_ledger import LedgerResult
from noetl_activities.sinks.ledger import Entry, StoreResult

__all__ = [
    "MAX_FRAME_BYTES",
    "MEMORY",
    "Call",
    "Cancel",
    "Done",
    "Failed",
    "Find",
    "OutcomeNeeded",
    "OutcomeText",
    "Reply",
    "Setup",
    "Store",
    "ToProcess",
    "body_size",
    "encode_frame",
    "read_frame",
]

MAX_FRAME_BYTES = 80 * 1024 * 1024
"""A result has at most 32 MB (duckdb_statements.MAX_BYTES), and contains its last statement twice."""

MEMORY = ":memory:"
"""DuckDB's name for a database without a file. Each call has a separate one."""


class Setup(msgspec.Struct, frozen=True, tag=True):
    """The configuration of the process.

    ``database``: an absolute path, or MEMORY. ``directories``: those that SQL may access. ``memory``: DuckDB's limit in
    bytes.
    """

    database: str
    directories: tuple[str, ...]
    memory: int


class Call(msgspec.Struct, frozen=True, tag=True):
    """Run ``statements``. With a ``key``, store the outcome under ``key`` and ``repetition``: see LedgerSlot."""

    number: int
    statements: list[str]
    params: list[Any]
    key: str | None
    repetition: int


class Find(msgspec.Struct, frozen=True, tag=True):
    """Look up an outcome in the ledger."""

    number: int
    key: str
    repetition: int


class Store(msgspec.Struct, frozen=True, tag=True):
    """Perform a sink: write ``rows`` to ``table``, a quoted name, or run ``statements``, each with its ``values``."""

    number: int
    table: str
    rows: list[dict[str, Json]]
    mode: str
    keys: list[str]
    entry: Entry
    statements: list[str] = []
    values: list[list[Any]] = []


class OutcomeText(msgspec.Struct, frozen=True, tag=True):
    """The response to OutcomeNeeded: the text of the outcome for the ledger."""

    number: int
    text: str


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Cancel a call."""

    number: int


ToProcess: TypeAlias = Setup | Call | Find | Store | OutcomeText | Cancel


class OutcomeNeeded(msgspec.Struct, frozen=True, tag=True):
    """The call waits in its transaction for the text that represents its outcome in the ledger."""

    number: int
    outcome: Outcome


class Done(msgspec.Struct, frozen=True, tag=True):
    """The call succeeded. ``call_result`` is set for Call, ``store_result`` for Store. For Find, ``text`` is
    the outcome in the ledger, or None.
    """

    number: int
    call_result: LedgerResult | None = None
    store_result: StoreResult | None = None
    text: str | None = None


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The call failed with a DuckDB exception of the class ``code``, or is invalid if ``code`` is None."""

    number: int
    message: str
    code: str | None = None


Reply: TypeAlias = OutcomeNeeded | Done | Failed


def encode_frame(message: ToProcess | Reply) -> bytes:
    """Return the message as a frame. Raises ValueError if it cannot be encoded or is too long."""
    body = msgspec.json.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise ValueError(f"it is over {MAX_FRAME_BYTES >> 20} MB")
    return len(body).to_bytes(4, "big") + body


def body_size(head: bytes) -> int:
    """Return the length of a frame's JSON from its first four bytes. Raises ValueError if it exceeds the maximum."""
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME_BYTES:
        raise ValueError(f"a frame of {size} bytes")
    return size


def read_frame(file: BinaryIO) -> ToProcess | None:
    """Read the next message; None if the other process has ended."""
    head = file.read(4)
    if len(head) < 4:
        return None
    body = file.read(body_size(head))
    frame: ToProcess = msgspec.json.decode(body, type=ToProcess)
    return frame
