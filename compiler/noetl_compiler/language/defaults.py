"""Defaults and maximums of settings in playbooks: seconds, counts and names."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = [
    "ATTEMPTS",
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
    "MAX_ATTEMPTS",
    "MAX_CALL_DEPTH",
    "MULTIPLIER",
    "PAGES",
    "RETRY_MAX_DELAY",
]

ATTEMPTS = 3
"""Calls that a retry makes in total, the first included."""

MAX_ATTEMPTS = 1_000
"""The maximum number of calls of a retry, because the log of attempts has a limited size."""

PAGES = 100
"""Calls that an ``again`` rule makes in total, one for each page."""

DELAY = 1.0
"""Seconds before the second call of a retry."""

MULTIPLIER = 2.0
"""The factor by which an exponential delay grows from call to call."""

RETRY_MAX_DELAY = 60.0
"""The maximum delay of a ``retry``, in seconds. The delay of a v10 rule has no such limit."""

COLLECTED_AS = "pages"
"""The name of what repeated calls have collected."""

ITERATOR = "item"
"""The name of the item of a loop."""

IN_FLIGHT = 16
"""Iterations of a parallel loop that run at once."""

FRAME: Mapping[str, int] = MappingProxyType(
    {"max_rows": 1_000, "max_seconds": 60, "max_bytes": 16_000_000, "row_concurrency": 16}
)
"""The limits of a frame: items, seconds after which no further item starts, bytes of results, concurrent items."""

CLAIM: Mapping[str, int] = MappingProxyType(
    {"max_rows": 1, "row_concurrency": 1, "lease_seconds": 120, "max_attempts": 3}
)
"""The limits of a claimer: rows per claim, concurrent rows, seconds of the lease, claims of a row that fails."""

ENTRY_STEP = "start"
"""The name of the first step of a run. Without such a step the run starts at the first in the document."""

FINAL_STEP = "end"
"""The name of the step where all routes meet, case-insensitive. It is injected if the playbook has none."""

CLEANUP_SECONDS = 60.0
"""How long the final step of a stopped run may take, if it has no timeout of its own."""

HOLD_SECONDS = 7 * 86_400
"""How long a failed step is held before it fails, by default."""

MAX_CALL_DEPTH = 20
"""The maximum depth of calls between playbooks; the submitted one has depth 0."""
