"""How large a JSON text may be, told before it is parsed: parsers recurse, and a list costs far more than two bytes.

Strings are cut out first, so that what stands in them counts for nothing. What is left has a comma or an opening
bracket for each of its values, and only brackets matter for its depth; whether it is JSON at all the parser tells.
"""

from __future__ import annotations

import re
from itertools import accumulate

from noetl_compiler.reader import MAX_DEPTH

__all__ = ["MAX_VALUES", "excess"]

MAX_VALUES = 1_000_000
"""They take some 100 MB once parsed."""

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)  # an unclosed one runs to the end, once
_BRACKET = re.compile(r"[\[\]{}]")


def excess(text: str) -> str:
    """What there is too much of, such as ``more than 100 levels``; ``""`` when the text may be parsed."""
    bare = _STRING.sub("", text)
    if bare.count(",") + bare.count("[") + bare.count("{") >= MAX_VALUES:
        return f"more than {MAX_VALUES:,} values"
    steps = (1 if found[0] in "[{" else -1 for found in _BRACKET.finditer(bare))
    return f"more than {MAX_DEPTH} levels" if max(accumulate(steps), default=0) > MAX_DEPTH else ""
