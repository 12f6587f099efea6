"""What is known of a circuit breaker (circuits.py) between the calls of its task, also in another process."""

from __future__ import annotations

import msgspec

__all__ = ["CircuitState", "Limits"]


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """After how many ``failures`` a circuit opens; ``window`` and ``probe`` are milliseconds. Without a window the
    failures are those in a row; without a probe the circuit stays open.
    """

    failures: int = 1
    window: int | None = None
    probe: int | None = None


class CircuitState(msgspec.Struct, frozen=True, omit_defaults=True):
    """``failures`` are the times of those that count, the oldest first. It is open since ``opened``, 0 where it is
    closed; ``probing`` is the id of the call that tries. A call that counts ``ended`` last at this time. ``limits`` are
    those of the call that began last.
    """

    failures: tuple[int, ...] = ()
    opened: int = 0
    probing: str = ""
    ended: int = 0
    limits: Limits = Limits()
