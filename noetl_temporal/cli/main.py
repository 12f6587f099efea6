"""The start of the ``noetl`` command: it sees to Ctrl-C before it imports what takes long."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from noetl_temporal.cli.exits import INTERRUPTED
from noetl_temporal.cli.importing import importing

__all__ = ["main"]


def main() -> NoReturn:
    """Entry point. A Ctrl-C while modules are imported leaves at once: nothing has begun that would have to end."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where it is ignored, as in a script's background
        signal.signal(signal.SIGINT, _leave)
    with importing():
        from noetl_temporal.cli import commands

    signal.signal(signal.SIGINT, before)
    commands.main()


def _leave(_number: int, _frame: object) -> NoReturn:
    os._exit(INTERRUPTED)
