"""The ledger entries of a call, stored together with its rows (semantics.md 26a).

A sink with transactions commits its entry together with its rows; the first sink of a call also stores the outcome of
the call. An attempt that finds the outcome does not repeat the call; a sink that finds its entry writes nothing.
A call that is repeated after a success has a new ``repetition`` (tool.Request), so it stores new rows; a call that is
repeated after a failure stores only the missing ones.
"""

from __future__ import annotations

import random

import msgspec

__all__ = ["MAX_PRUNED", "RETENTION_DAYS", "Entry", "StoreResult", "is_time_to_prune"]

RETENTION_DAYS = 30
"""Older entries are deleted: no run still needs them."""

MAX_PRUNED = 10_000
"""Maximum number of entries that are deleted at once, so that no sink waits long."""

_PRUNE_CHANCE = 0.002


class Entry(msgspec.Struct, frozen=True):
    """The ledger entries of a sink.

    ``key`` and ``repetition`` identify the entry of the sink itself. ``outcome`` is the outcome of the call to store in
    a second entry, under ``call_key`` (the JSON of an outcome_ledger.LedgerOutcome); None if it is stored already.
    ``mode: replace`` empties the table once for each ``replace_key``, which is the same for all calls of a step run.
    """

    key: str
    repetition: int = 1
    call_key: str = ""
    outcome: str | None = None
    replace_key: str = ""


class StoreResult(msgspec.Struct, frozen=True):
    """The result of a sink: the number of ``rows`` written to ``table``; 0 if the sink is a ``duplicate``.

    ``is_in_ledger``: the outcome of the call is in the ledger. ``existing_outcome`` is the JSON of the outcome that
    another attempt stored first: then nothing was written, and the call has that outcome. ``warning`` says why there is
    no ledger.
    """

    rows: int = 0
    table: str | None = None
    duplicate: bool = False
    is_in_ledger: bool = False
    existing_outcome: str | None = None
    warning: str | None = None


def is_time_to_prune() -> bool:
    """Whether to delete old entries; randomly true for a fraction of the calls."""
    return random.random() < _PRUNE_CHANCE  # noqa: S311 - no secret depends on it
