"""Exit statuses; the README explains them."""

from __future__ import annotations

__all__ = ["FAILED", "INTERRUPTED", "WRONG"]

FAILED = 1
WRONG = 2
INTERRUPTED = 130
