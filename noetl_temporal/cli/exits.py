"""The exit statuses of commands, which the README explains. Nothing may be imported here, because main.py needs them
before its imports are done.
"""

from __future__ import annotations

__all__ = ["FAILED", "INTERRUPTED", "UNKNOWN", "WRONG"]

FAILED = 1
WRONG = 2
UNKNOWN = 3
INTERRUPTED = 130
