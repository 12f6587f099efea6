"""Warnings for the log (undefined.py). Part of the wire format, so separate from the template code."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Span

__all__ = ["ConditionWarning"]


class ConditionWarning(msgspec.Struct, frozen=True):
    """A warning about the condition at ``span``."""

    message: str
    span: Span
