"""Values that lowering makes of expressions."""

from __future__ import annotations

from collections.abc import Mapping

from noetl_compiler.graph import Span, Value
from noetl_compiler.graph.contents import pointer

__all__ = ["template_mapping"]


def template_mapping(expressions: Mapping[str, str], span: Span) -> Value:
    """Return a mapping of names to templates: ``{"rows": "results.load"}`` gives ``{rows: "{{ results.load }}"}``.

    All templates have the same span.
    """
    data = {name: f"{{{{ {expression} }}}}" for name, expression in expressions.items()}
    return Value(data, {pointer("", name): span for name in expressions})
