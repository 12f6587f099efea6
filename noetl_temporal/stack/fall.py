"""Why a stack that was to stay is gone: written down when it falls, for whoever looks next."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.stack.errors import StackError
from noetl_temporal.stack.files import read_text, write_whole
from noetl_temporal.stack.home import Home

__all__ = ["forget_fall", "note_fall", "reason_of_fall"]


def note_fall(home: Home, error: StackError) -> None:
    """Keep what happened, and when."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    write_whole(home.fall, f"the stack fell at {now}: {error}\n")


def reason_of_fall(home: Home) -> str | None:
    """Why the last stack ended, where that was not asked for. Only asked while none runs."""
    with suppress(FileNotFoundError):
        return read_text(home.fall).rstrip()
    left = Addresses.read(home.stack)
    if left is None:
        return None
    return f"the stack fell: its process ({left.pid}) was killed, or the machine was restarted"


def forget_fall(home: Home) -> None:
    """It has been told."""
    home.fall.unlink(missing_ok=True)
    home.stack.unlink(missing_ok=True)
