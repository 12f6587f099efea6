"""Exit statuses; the README explains them."""

from __future__ import annotations

__all__ = ["FAILED", "INTERRUPTED", "UNKNOWN", "WRONG"]

FAILED = 1
WRONG = 2
UNKNOWN = 3
INTERRUPTED = 130
