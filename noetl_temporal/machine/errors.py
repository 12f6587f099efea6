"""The one error a machine raises."""

from __future__ import annotations

__all__ = ["ProtocolError"]


class ProtocolError(RuntimeError):
    """The shell broke the contract: an unknown id, or an event out of its phase. A bug; the machine has not changed."""
