"""The ledger entries of a call, stored together with its rows (semantics.md 26a).

A sink with transactions commits its entry together with its rows; the first sink of a call also stores the outcome of
the call. An attempt that finds the outcome does not repeat the call; a sink that finds its entry writes nothing.
Entries of a call are distinguished by ``n``, which is one more than its successful attempts: a call that is repeated
after a success stores new rows, and one that is repeated after a failure continues where that stopped.
"""

from __future__ import annotations

import random

import msgspec

__all__ = ["DAYS_KEPT", "PRUNED_AT_ONCE", "Entry", "Stored", "is_time_to_prune"]

DAYS_KEPT = 30
"""Older entries are deleted: no run still needs them."""

PRUNED_AT_ONCE = 10_000
"""Maximum number of entries deleted at once, so that no sink waits long."""

_PRUNE_CHANCE = 0.002


class Entry(msgspec.Struct, frozen=True):
    """The ledger entries of a sink: its own ``key`` and ``n``, and under ``call`` the ``outcome`` of the call (the JSON
    of a once.LedgerOutcome), if no earlier sink has stored it. ``mode: replace`` empties the destination once per
    ``once``, which is the same for all calls of a step run.
    """

    key: str
    n: int = 1
    call: str = ""
    outcome: str | None = None
    once: str = ""


class Stored(msgspec.Struct, frozen=True):
    """The result of a sink: ``rows`` written into ``table``, none if it is a ``duplicate``.

    ``is_in_ledger``: the outcome of the call is in the ledger. ``rival`` is the JSON of another outcome that was there
    before: then nothing was written, and the call has that outcome. ``warning`` says why there is no ledger.
    """

    rows: int = 0
    table: str | None = None
    duplicate: bool = False
    is_in_ledger: bool = False
    rival: str | None = None
    warning: str | None = None


def is_time_to_prune() -> bool:
    """Whether to delete old entries; randomly true for a fraction of the calls."""
    return random.random() < _PRUNE_CHANCE  # noqa: S311 - keeps no secret
