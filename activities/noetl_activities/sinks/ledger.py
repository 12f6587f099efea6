"""The ledger entries of a call, stored together with its rows (semantics.md 26a).

A sink that has a transaction commits with its rows an entry of its own and, where it is the call's first, the call's
outcome. An attempt that finds the outcome does not make the call again; a sink that finds its entry writes nothing
again. Entries of one call are told apart by ``n``: one more than its attempts that went well, so that a call that is
repeated after a good outcome has rows of its own, and one that is repeated after a failure goes on where that stopped.
"""

from __future__ import annotations

import random

import msgspec

__all__ = ["DAYS_KEPT", "PRUNED_AT_ONCE", "Entry", "Stored", "is_time_to_prune"]

DAYS_KEPT = 30
"""An entry that is older is deleted: no run still asks for it."""

PRUNED_AT_ONCE = 10_000
"""Entries deleted in one go, so that no sink waits long for it."""

_PRUNE_CHANCE = 0.002


class Entry(msgspec.Struct, frozen=True):
    """What a sink is to note: its own ``key`` and ``n``, and under ``call`` the call's ``outcome`` (the JSON of a
    once.LedgerOutcome) when no sink before has noted it. ``once`` is the key under which ``mode: replace`` empties the
    destination, the same for all calls of a step run.
    """

    key: str
    n: int = 1
    call: str = ""
    outcome: str | None = None
    once: str = ""


class Stored(msgspec.Struct, frozen=True):
    """What a sink did: ``rows`` written into ``table``, none when it is a ``duplicate``.

    ``is_kept`` when the call's outcome stands in the ledger now. ``rival`` is the JSON of another outcome that stood
    there before: then nothing was written, and that outcome is the call's. ``warning`` says why there is no ledger.
    """

    rows: int = 0
    table: str | None = None
    duplicate: bool = False
    is_kept: bool = False
    rival: str | None = None
    warning: str | None = None


def is_time_to_prune() -> bool:
    """True now and then, whichever worker asks."""
    return random.random() < _PRUNE_CHANCE  # noqa: S311 - keeps no secret
