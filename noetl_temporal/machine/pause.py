"""The pause of a run."""

from __future__ import annotations

import msgspec

__all__ = ["Pause"]


class Pause(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a run was paused, in milliseconds since the epoch, by whom, and why."""

    since: int
    by: str = ""
    reason: str = ""
