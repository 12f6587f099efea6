"""How long a playbook that is stopped may clean up. Whoever waits for that has to know it, without the machine."""

from __future__ import annotations

__all__ = ["CLEANUP_SECONDS"]

CLEANUP_SECONDS = 60.0
"""Of the final step, where it has no timeout of its own."""
