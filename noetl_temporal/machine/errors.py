"""The one error a machine raises."""

from __future__ import annotations

__all__ = ["ProtocolError"]


class ProtocolError(RuntimeError):
    """The shell violated the protocol: an unknown id, or a fact in the wrong phase. It is a bug; the state of the
    machine is unchanged.
    """
