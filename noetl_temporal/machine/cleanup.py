"""How long the cleanup of a stopped playbook may take. Separate from the machine, because clients wait for it."""

from __future__ import annotations

__all__ = ["CLEANUP_SECONDS"]

CLEANUP_SECONDS = 60.0
"""For a final step without a timeout of its own."""
