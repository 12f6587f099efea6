"""The argument of a playbook workflow, and what it returns: JSON in history, read by the mirror by key."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Graph, Json
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.events import Failure

__all__ = ["RunInput", "RunReport"]


class RunInput(msgspec.Struct, frozen=True, omit_defaults=True):
    """``content`` is the playbook's text, for the catalog. ``queues`` maps a symbolic queue to a real one; a queue not
    named there is ``noetl-<kind>``. ``limit`` is the bytes that a value may have. ``state``, ``trail`` and ``after``,
    the millisecond above which ids of this run stand, are set by continue-as-new only."""

    execution_id: int
    graph: Graph
    content: str
    payload: dict[str, Json] = {}
    queues: dict[str, str] = {}
    parent_execution_id: int | None = None
    limit: int = INLINE_BYTES
    state: Json = None
    trail: tuple[DomainEvent, ...] = ()
    after: int = 0


class RunReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The workflow's result; in the details of the failure when the playbook failed.

    ``started`` is when the first run began, milliseconds since the epoch, 0 where it is not known. ``trail`` is what no
    later command could carry."""

    status: str
    execution_id: int
    result: Json = None
    failures: tuple[Failure, ...] = ()
    steps: dict[str, dict[str, Json]] = {}
    started: int = 0
    trail: tuple[DomainEvent, ...] = ()
