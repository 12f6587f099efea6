"""Keys under which a document binds names, the canonical one first, and words that refer to a task."""

from __future__ import annotations

__all__ = ["AUTH", "AUTH_AND_ENDPOINT", "INPUT", "LOOSE_INPUT", "PREVIOUS", "ROUTE_INPUT", "SET"]

AUTH = ("auth", "credential", "credentials", "connection")
"""The credentials of a call."""

AUTH_AND_ENDPOINT = (
    "has auth and an endpoint: a playbook cannot change the server of a credential",
    "write the endpoint in the credential",
)
"""The message about an object that is described with both, without its subject, and what to do instead."""

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
