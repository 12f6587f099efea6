"""How a process ended, in words."""

from __future__ import annotations

import signal

__all__ = ["exit_words"]


def exit_words(status: int) -> str:
    """``status 3``, or ``killed by SIGKILL`` for the status -9."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:  # a real-time signal
        return f"killed by signal {-status}"
