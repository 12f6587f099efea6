"""Replace ``max_attempts`` in the conditions of a legacy retry, which NoETL bound to the limit of that retry."""

from __future__ import annotations

import re

from msgspec.structs import replace

from noetl_compiler.graph import Template, Value
from noetl_compiler.source import lone_expression
from noetl_compiler.templating.analysis import analyse_template

__all__ = ["with_limit"]

_NAME = "max_attempts"
_READ = re.compile(rf"(?<![\w.'\"]){_NAME}(?![\w'\"])")


def with_limit(when: Template | None, limit: Value) -> Template | None:
    """Return the condition with the limit in place of the name. A limit with text around its template is left out."""
    if when is None or _NAME not in analyse_template(when.source).root_names:
        return when
    text = f"({lone_expression(limit.data) or _NAME})" if isinstance(limit.data, str) else str(limit.data)
    return replace(when, source=_READ.sub(lambda _name: text, when.source))
