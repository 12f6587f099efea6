"""What can go wrong with the embedded stack; the message says what to do."""

from __future__ import annotations

__all__ = ["BusyError", "StackError"]


class StackError(Exception):
    """The embedded stack cannot be started or reached."""


class BusyError(StackError):
    """Another process owns this folder's stack."""
