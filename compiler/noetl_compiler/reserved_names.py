"""The names below ``ctx`` that lowered playbooks keep for themselves, apart from what their authors set."""

from __future__ import annotations

__all__ = ["CHOSEN", "PASSED"]

PASSED = "ctx.passed."
"""Then a step: the names that the way taken to it passes."""
CHOSEN = "ctx.chosen."
"""Then a step with a loop: the ``case`` rule that was last to match one of its items, and what it passes."""
