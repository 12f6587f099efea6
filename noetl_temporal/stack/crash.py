"""Records why a stack crashed, for the next `noetl dev status`."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import read_text, write_whole
from noetl_temporal.stack.home import Home
from noetl_temporal.utc_time import utc_text

__all__ = ["clear_crash", "crash_reason", "record_crash"]


def record_crash(home: Home, error: StackError) -> None:
    """Record the error and the time."""
    now = utc_text(datetime.now(UTC))
    write_whole(home.fall, f"the stack crashed at {now}: {error}\n")


def crash_reason(home: Home) -> str | None:
    """Return why the last stack crashed; None if it was stopped. Call it only while no stack is running."""
    with suppress(FileNotFoundError):
        return read_text(home.fall).rstrip()
    left = Addresses.read(home.stack)
    if left is None:
        return None
    return f"the stack crashed: its process ({left.pid}) was killed, or the machine was restarted"


def clear_crash(home: Home) -> None:
    """Delete the record, after it was reported."""
    home.fall.unlink(missing_ok=True)
    home.stack.unlink(missing_ok=True)
