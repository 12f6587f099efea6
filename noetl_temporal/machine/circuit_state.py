"""The state of a circuit breaker (circuits.py) between the calls of its task, also in other processes."""

from __future__ import annotations

import msgspec

__all__ = ["CircuitLimits", "CircuitState"]


class CircuitLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The number of ``failures`` after which a circuit opens; ``window`` and ``probe`` are in milliseconds. Without a
    window, consecutive failures count; without a probe, the circuit stays open.
    """

    failures: int = 1
    window: int | None = None
    probe: int | None = None


class CircuitState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of one circuit breaker; times are in milliseconds since the epoch.

    ``failure_times`` are those of the failures that count, oldest first. The circuit has been open since ``opened_at``,
    which is 0 while it is closed; ``probe_call`` is the id of the probe in flight. The last call that counts ended at
    ``ended_at``. ``limits`` are those of the call that began last.
    """

    failure_times: tuple[int, ...] = ()
    opened_at: int = 0
    probe_call: str = ""
    ended_at: int = 0
    limits: CircuitLimits = CircuitLimits()
