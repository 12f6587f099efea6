"""What the log warns of (undefined.py). On the wire, so apart from the templates that find it."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Span

__all__ = ["Mistake"]


class Mistake(msgspec.Struct, frozen=True):
    """A warning about the condition at ``span``."""

    message: str
    span: Span
