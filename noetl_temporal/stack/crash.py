"""Records why a stack crashed, for the next `noetl dev status`."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import read_text, write_atomically
from noetl_temporal.stack.home import Home
from noetl_temporal.utc_time import utc_text

__all__ = ["clear_crash", "crash_reason", "record_crash"]


def record_crash(home: Home, error: StackError) -> None:
    """Store the error and the time."""
    now = utc_text(datetime.now(UTC))
    write_atomically(home.crash_file, f"the stack crashed at {now}: {error}\n")


def crash_reason(home: Home) -> str | None:
    """Return why the last stack crashed; None if it was stopped. Call this only while no stack is running."""
    with suppress(FileNotFoundError):
        return read_text(home.crash_file).rstrip()
    addresses = Addresses.read(home.addresses_file)
    if addresses is None:
        return None
    return f"the stack crashed: its process ({addresses.owner_pid}) was killed, or the machine was restarted"


def clear_crash(home: Home) -> None:
    """Delete the record of a crash, once it has been reported."""
    home.crash_file.unlink(missing_ok=True)
    home.addresses_file.unlink(missing_ok=True)
