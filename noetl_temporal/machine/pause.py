"""That a run is paused."""

from __future__ import annotations

import msgspec

__all__ = ["Pause"]


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    """Since when a run is paused, milliseconds since the epoch, by whom, and why."""

    since: int
    by: str = ""
    reason: str = ""
