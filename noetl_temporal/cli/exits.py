"""The exit statuses of commands; the README explains them. Nothing may be imported here: the command needs them before
its imports are done.
"""

from __future__ import annotations

__all__ = ["FAILED", "INTERRUPTED", "UNKNOWN", "WRONG"]

FAILED = 1
WRONG = 2
UNKNOWN = 3
INTERRUPTED = 130
