"""Read ``status`` of the final step: how the run ends (semantics.md 35).

status: "{{ 'partial' if failures else 'completed' }}"
"""

from __future__ import annotations

from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.dialects.construct_fields import ConstructFields
from noetl_compiler.graph import FinalStatus
from noetl_compiler.language.words import RUN_RESULTS
from noetl_compiler.nodes import value_of

__all__ = ["read_status"]


def read_status(fields: ConstructFields) -> FinalStatus | None:
    """Read ``status`` of a step: a word, or a template that yields one; None if absent or wrong."""
    node = fields.scalar("status")
    if node is None:
        return None
    status = value_of(node)
    if status.templates or status.data in RUN_RESULTS:
        return FinalStatus(status, node.span)
    message = f'"status" must be one of {", ".join(RUN_RESULTS)}, or a template that yields one'
    fields.report.error(Code.WRONG_VALUE, node.span, message, did_you_mean(str(status.data), RUN_RESULTS))
    return None
