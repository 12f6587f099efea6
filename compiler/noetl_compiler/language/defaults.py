"""Defaults and maximums of settings in playbooks: seconds, counts and names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = [
    "ATTEMPTS",
    "CALL_DEPTH",
    "CLAIM",
    "CLEANUP_SECONDS",
    "COLLECTED_AS",
    "DELAY",
    "ENTRY_STEP",
    "FINAL_STEP",
    "FRAME",
    "HOLD_SECONDS",
    "IN_FLIGHT",
    "ITERATOR",
    "MOST_ATTEMPTS",
    "MULTIPLIER",
    "PAGES",
    "RETRY_MAX_DELAY",
]

ATTEMPTS = 3
"""Calls that a retry makes in total, the first included."""

MOST_ATTEMPTS = 1_000
"""The maximum number of calls of a retry, as their log has a limited size."""

PAGES = 100
"""Calls that an ``again`` rule makes in total, one for each page."""

DELAY = 1.0
"""Seconds before the second call of a retry."""

MULTIPLIER = 2.0
"""The factor by which an exponential delay grows from call to call."""

RETRY_MAX_DELAY = 60.0
"""Seconds that the delay of a ``retry`` grows to at most; the delay of a v10 rule has no such limit."""

COLLECTED_AS = "pages"
"""The name of what repeated calls have collected."""

ITERATOR = "item"
"""The name of the item of a loop."""

IN_FLIGHT = 16
"""Iterations of a parallel loop that run at once."""

FRAME: Mapping[str, int] = MappingProxyType(
    {"max_rows": 1_000, "max_seconds": 60, "max_bytes": 16_000_000, "row_concurrency": 16}
)
"""The limits of a frame: items, seconds until no further item begins, bytes of results, items worked on at once."""

CLAIM: Mapping[str, int] = MappingProxyType(
    {"max_rows": 1, "row_concurrency": 1, "lease_seconds": 120, "max_attempts": 3}
)
"""The limits of a claimer: rows of a claim, rows worked on at once, seconds of the lease, how often a row that failed
may be claimed."""

ENTRY_STEP = "start"
"""The step that a run begins with, where there is one of that name; else the first."""

FINAL_STEP = "end"
"""The step where all routes meet, in any case of letters; it is injected where there is none."""

CLEANUP_SECONDS = 60.0
"""How long the final step of a stopped run may take, if it has no timeout of its own."""

HOLD_SECONDS = 7 * 86_400
"""How long a failed step is held until it fails, where it does not say."""

CALL_DEPTH = 20
"""How deep playbooks may call each other: the one that was submitted has depth 0."""
