"""Domain events: the NoETL log as the machine writes it.

The machine emits the starts and ends of runs, steps, loops, iterations and tasks, and its decisions. The mirror derives
the rows of attempts and sinks from the reports of activities.
"""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Json

__all__ = ["DomainEvent"]


class DomainEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of noetl.event. ``at`` is in milliseconds since the epoch, ``duration`` in seconds.

    ``node`` is the name of a step or task, the playbook's path, or ``workflow``; ``kind`` is the node type: playbook,
    workflow, step, loop, iteration, or the tool kind of a task. ``parent`` is the id of the event under which views
    show this one. ``ends`` is the id of the start event that this event ends.
    """

    id: int
    at: int
    type: str
    node: str
    kind: str
    status: str
    parent: int | None = None
    ends: int | None = None
    duration: float | None = None
    result: Json = None
    error: str | None = None
    context: dict[str, Json] = {}
    meta: dict[str, Json] = {}
