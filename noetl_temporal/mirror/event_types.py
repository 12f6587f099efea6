"""The types of the last events of a run."""

from __future__ import annotations

__all__ = ["PLAYBOOK_ENDS"]

PLAYBOOK_ENDS = frozenset({"playbook.completed", "playbook.failed", "playbook.cancelled"})
