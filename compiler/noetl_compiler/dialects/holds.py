"""Read ``on_failure``: whether a failed step is held for a person, and for how long (semantics.md 42).

on_failure: {do: hold, for: 2d}
"""

from __future__ import annotations

from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.language.constructs.policies import ON_FAILURE
from noetl_compiler.language.words import FAILURE_ACTIONS
from noetl_compiler.nodes import MappingNode
from noetl_compiler.syntax import OnFailure

__all__ = ["read_on_failure"]


def read_on_failure(fields: Fields) -> OnFailure | None:
    """Read ``on_failure`` of a step, or of the executor for all steps; None if absent."""
    node = fields.node_of("on_failure")
    if node is None:
        return None
    if not isinstance(node, MappingNode):
        action = fields.choice("on_failure", FAILURE_ACTIONS)
        return OnFailure(action, node.span) if action else None
    on_failure = ConstructFields(node, fields.report, ON_FAILURE)
    action, seconds = on_failure.choice("do", FAILURE_ACTIONS), on_failure.seconds("for")
    if action == "fail":
        on_failure.ignore("for", reason="only a step that is held waits")
    on_failure.check_keys()
    return OnFailure(action, node.span, seconds) if action else None
