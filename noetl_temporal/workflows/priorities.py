"""The priority of a run in Temporal, which its loops and calls inherit."""

from __future__ import annotations

from msgspec import UNSET
from temporalio.common import Priority

from noetl_compiler.graph import Graph

__all__ = ["priority_of"]


def priority_of(graph: Graph) -> Priority:
    """Return the priority in the metadata of the playbook. A called playbook inherits unset fields from its caller."""
    priority = graph.priority
    if priority is UNSET:
        return Priority.default
    return Priority(priority.number, priority.fairness_key or None, priority.fairness_weight)
