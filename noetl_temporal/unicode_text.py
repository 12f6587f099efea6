"""Text from outside that may have lone surrogates, such as bytes of a command line that are not UTF-8."""

from __future__ import annotations

__all__ = ["is_unicode"]


def is_unicode(text: str) -> bool:
    """Whether the text can be sent to a server."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
