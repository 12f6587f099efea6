"""How often who waits for events looks for them: often while they come, seldom when none come.

A look is one query. Postgres could tell of new rows itself (NOTIFY), but then every transaction of the mirror would
take a lock that all of them share, for the few runs that somebody watches.
"""

from __future__ import annotations

import asyncio
import contextlib

__all__ = ["GROWTH", "QUICK_SECONDS", "SLOW_SECONDS", "Pace"]

QUICK_SECONDS = 0.03
SLOW_SECONDS = 0.2
GROWTH = 1.25
"""From one look that found nothing to the next: nine looks, or a second, lead from the first pause to the last."""


class Pace:
    """Of one who waits."""

    def __init__(self) -> None:
        self._seconds = QUICK_SECONDS
        self._hurried = asyncio.Event()

    async def pause(self, *, came: bool) -> None:
        """Wait for the next look; ``came`` tells whether the last one found something."""
        self._seconds = QUICK_SECONDS if came else min(self._seconds * GROWTH, SLOW_SECONDS)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._hurried.wait(), self._seconds)
            self._hurried.clear()
            self._seconds = QUICK_SECONDS

    def hurry(self) -> None:
        """Something is about to come: end the pause, now or the next, and look often again."""
        self._hurried.set()
