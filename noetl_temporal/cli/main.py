"""The entry point of ``noetl``, which handles Ctrl-C and SIGTERM before the slow imports."""

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
    """Run ``noetl``.

    Ctrl-C during the imports exits immediately, because nothing has started yet. So does SIGTERM to a service, with
    exit status 0, until the service handles it itself (stop_signals.py).
    """
    if _is_service(sys.argv[1:]):
        signal.signal(signal.SIGTERM, _exit_successfully)
    previous_handler = signal.getsignal(signal.SIGINT)
    if previous_handler is signal.default_int_handler:  # not where it is ignored, as in a script's background
        signal.signal(signal.SIGINT, _exit_interrupted)
    with importing():
        from noetl_temporal.cli import commands

    signal.signal(signal.SIGINT, previous_handler)
    commands.main()


def _is_service(arguments: Sequence[str]) -> bool:
    """Whether the command runs until it is stopped; ``mirror rebuild`` does not."""
    return arguments[:1] in (["worker"], ["mirror"], ["codec-server"]) and all(
        argument.startswith("-") for argument in arguments[1:2]
    )


def _exit_successfully(_number: int, _frame: object) -> NoReturn:
    os._exit(0)


def _exit_interrupted(_number: int, _frame: object) -> NoReturn:
    os._exit(INTERRUPTED)
