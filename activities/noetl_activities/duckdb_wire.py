"""The protocol between the worker and its DuckDB processes: frames of JSON over stdin and stdout.

    worker                                   DuckDB process
    Setup ───────────────────────────────►   limits itself
    Call | Find | Store ─────────────────►   runs it in a thread
           ◄───────────────────── Noting     the statements ran: what is the ledger to keep of this outcome?
    Keep ────────────────────────────────►   stores it, commits
           ◄───────────── Done | Failed      ends the call of that number
    Cancel ──────────────────────────────►   interrupts the call, which then fails

Calls of one process run side by side; ``number`` tells them apart. A frame is its length in four bytes, then the JSON.
"""

from __future__ import annotations

from typing import Any, BinaryIO, TypeAlias

import msgspec

from noetl_activities.once import Answer
from noetl_activities.outcome import Json, Outcome
from noetl_activities.sinks.ledger import Entry, Stored

__all__ = [
    "MAX_FRAME",
    "MEMORY",
    "Call",
    "Cancel",
    "Done",
    "Failed",
    "Find",
    "Keep",
    "Noting",
    "Reply",
    "Setup",
    "Store",
    "ToProcess",
    "framed",
    "read_frame",
    "size_of",
]

MAX_FRAME = 80 * 1024 * 1024
"""Bytes. A result has at most 32 MB (duckdb_statements.MAX_BYTES), and its last statement twice."""

MEMORY = ":memory:"
"""DuckDB's name for a database that has no file. Each call has one of its own."""


class Setup(msgspec.Struct, frozen=True, tag=True):
    """What the process is for: one ``database``, an absolute path or MEMORY, and the ``directories`` that its SQL may
    use. ``memory`` is DuckDB's limit in bytes.
    """

    database: str
    directories: tuple[str, ...]
    memory: int


class Call(msgspec.Struct, frozen=True, tag=True):
    """Run ``statements``. With a ``key`` the outcome is kept under it and ``n`` (noetl_activities.once.Once)."""

    number: int
    statements: list[str]
    params: list[Any]
    key: str | None
    n: int


class Find(msgspec.Struct, frozen=True, tag=True):
    """Look up the outcome that the ledger has."""

    number: int
    key: str
    n: int


class Store(msgspec.Struct, frozen=True, tag=True):
    """Perform a sink: ``rows`` into ``table``, a quoted name; or its own ``statements``, with ``params``."""

    number: int
    table: str
    rows: list[dict[str, Json]]
    mode: str
    keys: list[str]
    entry: Entry
    statements: list[str] = []
    params: list[Any] = []


class Keep(msgspec.Struct, frozen=True, tag=True):
    """The answer to Noting."""

    number: int
    text: str


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """Nobody waits for this call any more."""

    number: int


ToProcess: TypeAlias = Setup | Call | Find | Store | Keep | Cancel


class Noting(msgspec.Struct, frozen=True, tag=True):
    """The call waits in its transaction for the text that the ledger is to keep of its outcome."""

    number: int
    outcome: Outcome


class Done(msgspec.Struct, frozen=True, tag=True):
    """The call went well: the field of its kind is set; ``text`` of Find is None where the ledger has none."""

    number: int
    answer: Answer | None = None
    stored: Stored | None = None
    text: str | None = None


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The call failed: by DuckDB's error of the class ``code``, or, where that is None, because the call is wrong."""

    number: int
    message: str
    code: str | None = None


Reply: TypeAlias = Noting | Done | Failed


def framed(message: ToProcess | Reply) -> bytes:
    """The message as a frame. Raises ValueError (UnicodeEncodeError, too long) for what no frame can hold."""
    body = msgspec.json.encode(message)
    if len(body) > MAX_FRAME:
        raise ValueError(f"it is over {MAX_FRAME >> 20} MB")
    return len(body).to_bytes(4, "big") + body


def size_of(head: bytes) -> int:
    """How many bytes follow this beginning of a frame. Raises ValueError for more than any message has."""
    size = int.from_bytes(head, "big")
    if size > MAX_FRAME:
        raise ValueError(f"a frame of {size} bytes")
    return size


def read_frame(file: BinaryIO) -> ToProcess | None:
    """The next message; None when the other side is gone."""
    head = file.read(4)
    if len(head) < 4:
        return None
    body = file.read(size_of(head))
    found: ToProcess = msgspec.json.decode(body, type=ToProcess)
    return found
