"""Templates whose values cannot contain quotes or shell syntax, and the text of a template in a hint."""

from __future__ import annotations

__all__ = ["GENERATED_ID", "NUMERIC_FILTERS", "shown_value"]

GENERATED_ID = r"\{\{-?\s*(?:execution_id|job\.\w+)\s*-?\}\}"
"""A regular expression for the ids of a run, which have only digits, letters and ``-``."""

NUMERIC_FILTERS = "int|float|length|count"
"""Filters that yield a number, as alternatives of a regular expression."""

_MAX_SHOWN_CHARS = 60


def shown_value(text: str) -> str:
    """Return a text with templates as a hint shows it inside double quotes; ``...`` if it is long."""
    return text.replace('"', "'") if len(text) <= _MAX_SHOWN_CHARS and "\n" not in text else "..."
