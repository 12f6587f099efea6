"""Domain events: the NoETL log as the machine writes it.

The machine emits decisions and boundaries. The mirror reads attempts and sinks from the reports of activities.
"""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Json

__all__ = ["DomainEvent"]


class DomainEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """One row of noetl.event. ``at`` in milliseconds since the epoch, ``duration`` in seconds.

    ``node`` is the step name (or the playbook's path, or ``workflow``), ``kind`` the node type (playbook, workflow,
    step, loop, iteration, or the tool kind of a task). ``ends`` is the id of the matching start event.
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
