"""The exit statuses of commands (README, Running playbooks). Nothing may be imported here, because main.py needs them
before its imports are done.
"""

from __future__ import annotations

__all__ = ["FAILED", "INTERRUPTED", "UNKNOWN", "WRONG"]

FAILED = 1
"""The run failed, was cancelled, terminated or timed out, or a check found something."""

WRONG = 2
"""The playbook, the command line or the deployment is wrong; nothing was started."""

UNKNOWN = 3
"""The outcome of the run is unknown."""

INTERRUPTED = 130
"""Ctrl-C stopped the command."""
