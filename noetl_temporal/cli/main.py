"""The start of the ``noetl`` command: it handles Ctrl-C and SIGTERM before it imports what takes long."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from noetl_temporal.cli.exits import INTERRUPTED
from noetl_temporal.cli.importing import importing

__all__ = ["main"]


def main() -> NoReturn:
    """Entry point. A Ctrl-C while modules are imported leaves at once: nothing has begun that would have to end. So
    does SIGTERM until a service handles it itself (stop_signals.py), which is not a failure.
    """
    if _serves(sys.argv[1:]):
        signal.signal(signal.SIGTERM, _leave_well)
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # not where it is ignored, as in a script's background
        signal.signal(signal.SIGINT, _leave)
    with importing():
        from noetl_temporal.cli import commands

    signal.signal(signal.SIGINT, before)
    commands.main()


def _serves(arguments: Sequence[str]) -> bool:
    """Whether the command runs until it is stopped; ``mirror rebuild`` does not."""
    return arguments[:1] in (["worker"], ["mirror"], ["codec-server"]) and all(
        argument.startswith("-") for argument in arguments[1:2]
    )


def _leave_well(_number: int, _frame: object) -> NoReturn:
    os._exit(0)


def _leave(_number: int, _frame: object) -> NoReturn:
    os._exit(INTERRUPTED)
