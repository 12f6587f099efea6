"""Keys under which a document binds names, the canonical one first, and words that refer to a task."""

from __future__ import annotations

__all__ = ["AUTH", "INPUT", "LOOSE_INPUT", "PREVIOUS", "ROUTE_INPUT", "SET"]

AUTH = ("auth", "credential", "credentials", "connection")
"""The credentials of a call."""

INPUT = ("input", "args", "with")
"""Names for a task or a step."""

LOOSE_INPUT = ("data", "params", "payload")
"""Names for a task whose tool has no field of that name."""

ROUTE_INPUT = (*INPUT, "data", "payload")
"""Names that a route passes to the step it leads to."""

PREVIOUS = frozenset({"previous", "prev", "_previous", "@previous"})
"""Names for the task before this one, as the target of a jump."""

SET = ("set", "set_vars")
"""Names that are set when something is done."""
