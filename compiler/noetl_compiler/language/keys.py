"""Keys that bind names, the canonical one first; and words that refer to the previous task."""

from __future__ import annotations

__all__ = ["AUTH", "INPUT", "LOOSE_INPUT", "PREVIOUS", "ROUTE_INPUT", "SET"]

AUTH = ("auth", "credential", "credentials", "connection")
"""Keys for the credentials of a call."""

INPUT = ("input", "args", "with")
"""Keys that bind names for a task or a step."""

LOOSE_INPUT = ("data", "params", "payload")
"""Older keys that bind names for a task, unless its tool has a field of that name."""

ROUTE_INPUT = (*INPUT, "data", "payload")
"""Keys that bind names for the step that a route leads to."""

PREVIOUS = frozenset({"previous", "prev", "_previous", "@previous"})
"""Words for the previous task, as the target of a jump."""

SET = ("set", "set_vars")
"""Keys that set names after a step, a task or a route."""
