"""Describes the exit status of a process."""

from __future__ import annotations

import signal

__all__ = ["exit_text", "signal_name"]


def exit_text(status: int) -> str:
    """Return ``status 3``, or ``killed by SIGKILL`` for the status -9."""
    if status >= 0:
        return f"status {status}"
    return f"killed by {signal_name(-status) or f'signal {-status}'}"


def signal_name(number: int) -> str | None:
    """Return ``SIGKILL`` for 9; None for a number without a name, such as that of a real-time signal."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
