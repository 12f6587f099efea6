"""The interval between queries of the event log for new rows: short while rows arrive, longer while none do.

A poll is one query. Postgres could announce rows itself (NOTIFY), but then every transaction of the mirror would take a
lock that all of them share, although few runs are being watched.
"""

from __future__ import annotations

import asyncio
import contextlib

__all__ = ["GROWTH", "MAX_SECONDS", "MIN_SECONDS", "PollInterval"]

MIN_SECONDS = 0.03
MAX_SECONDS = 0.2
GROWTH = 1.25
"""The factor by which the interval grows when a poll finds no rows. It reaches MAX_SECONDS after nine polls, about a
second."""


class PollInterval:
    """The interval between the polls of one reader."""

    def __init__(self) -> None:
        self._seconds = MIN_SECONDS
        self._was_reset = asyncio.Event()

    async def wait(self, *, found_rows: bool) -> None:
        """Sleep until the next poll is due. ``found_rows`` is whether the last poll found any."""
        self._seconds = MIN_SECONDS if found_rows else min(self._seconds * GROWTH, MAX_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._was_reset.wait(), self._seconds)
            self._was_reset.clear()
            self._seconds = MIN_SECONDS

    def reset(self) -> None:
        """End the current wait, or else the next one, and restart with the shortest interval, as rows are about to
        arrive.
        """
        self._was_reset.set()
