"""Checks text that may have lone surrogates, such as that of a command line with bytes that are not UTF-8."""

from __future__ import annotations

__all__ = ["is_unicode"]


def is_unicode(text: str) -> bool:
    """Whether the text can be encoded as UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
