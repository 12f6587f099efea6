"""Read ``guard``: the condition of a task, a sink or an assignment on entry. An extension of v10.

guard: {on_status: ok | error | any, when: "{{ ... }}", unless: ["{{ ... }}"]}
"""

from __future__ import annotations

from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.dialects.fields import Fields
from noetl_compiler.dialects.values import condition
from noetl_compiler.graph import Guard
from noetl_compiler.language.constructs.sinks import GUARD
from noetl_compiler.language.words import ON_STATUS

__all__ = ["read_guard"]


def read_guard(fields: Fields) -> Guard | None:
    """Read the guard among these fields."""
    guard_fields = ConstructFields.nested(fields, "guard", GUARD)
    if guard_fields is None:
        return None
    report = fields.report
    guard = Guard(
        guard_fields.choice("on_status", ON_STATUS) or "ok",
        guard_fields.condition("when"),
        tuple(template for node in guard_fields.items("unless") if (template := condition(node, report)) is not None),
    )
    guard_fields.check_keys()
    return guard
