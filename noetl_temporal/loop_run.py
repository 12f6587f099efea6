"""The argument of a loop workflow, and what it returns: JSON in history, read by the mirror by key."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.commands import ChunkInput
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.events import ChunkReport

__all__ = ["LoopEnd", "LoopRun"]


class LoopRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """``queues``, ``limit``, ``state``, ``trail`` and ``after`` as in RunInput."""

    input: ChunkInput
    queues: dict[str, str] = {}
    limit: int = INLINE_BYTES
    state: Json = None
    trail: tuple[DomainEvent, ...] = ()
    after: int = 0


class LoopEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """``trail`` is what no later command could carry."""

    report: ChunkReport
    trail: tuple[DomainEvent, ...] = ()
