"""Arguments of Python tasks that older playbooks pass as JSON: ``data: "{{ start.data | tojson }}"``.

Before v10 the engine parsed rendered text that was JSON, so the code received the value.
"""

from __future__ import annotations

import re

from noetl_compiler.graph import Json, Value
from noetl_compiler.value_merge import names_in

__all__ = ["with_values_of_json"]

_LAST_FILTER = re.compile(r"\s*\|\s*to_?json\s*(-?\}\}\s*)\Z")


def with_values_of_json(bound: Value) -> Value:
    """Replace arguments that are a single template with ``tojson`` by the value itself."""
    return Value({name: _value_of(text) for name, text in names_in(bound).items()}, bound.templates)


def _value_of(bound: Json) -> Json:
    if not isinstance(bound, str) or not bound.startswith("{{") or bound.count("{{") != 1:
        return bound
    return _LAST_FILTER.sub(r" \1", bound)
