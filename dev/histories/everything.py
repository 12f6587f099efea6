"""All recordings by name, which is the beginning of their files' names."""

from __future__ import annotations

from dev.histories.cursors import CURSORS
from dev.histories.edges import EDGES
from dev.histories.loops import LOOPS
from dev.histories.older import OLDER
from dev.histories.pauses import PAUSES
from dev.histories.recording import Recording
from dev.histories.steps import STEPS
from dev.histories.stops import STOPS
from dev.histories.sub_playbooks import SUB_PLAYBOOKS
from dev.histories.tasks import TASKS
from dev.histories.waits import WAITS

__all__ = ["RECORDINGS"]

RECORDINGS: dict[str, Recording] = {
    **STEPS,
    **TASKS,
    **LOOPS,
    **OLDER,
    **STOPS,
    **EDGES,
    **WAITS,
    **PAUSES,
    **SUB_PLAYBOOKS,
    **CURSORS,
}
