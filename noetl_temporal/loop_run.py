"""The arguments of a loop workflow, and what it returns: JSON in history, read by the mirror by key."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Json, SourceRef, Step
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.commands import ChunkInput, ChunkItems
from noetl_temporal.machine.events import ChunkReport
from noetl_temporal.packed_trail import PackedTrail
from noetl_temporal.shared_part import SharedPart

__all__ = ["LoopBody", "LoopEnd", "LoopRun", "joined", "parted"]


class LoopBody(SharedPart, frozen=True):
    """The second argument: what is the same for every chunk and every run of a loop."""

    source: SourceRef
    step: Step


class LoopRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """``queues``, ``limit``, ``state``, ``trail`` and ``after`` as in RunInput."""

    input: ChunkItems
    queues: dict[str, str] = {}
    limit: int = INLINE_BYTES
    state: Json = None
    trail: PackedTrail | None = None
    after: int = 0


class LoopEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """``trail`` is what no later command could carry."""

    report: ChunkReport
    trail: PackedTrail | None = None


def parted(given: ChunkInput) -> tuple[ChunkItems, LoopBody]:
    """A chunk's input as what is its own and what it shares with others."""
    own = {name: getattr(given, name) for name in ChunkItems.__struct_fields__}
    return ChunkItems(**own), LoopBody(given.source, given.step)


def joined(items: ChunkItems, body: LoopBody) -> ChunkInput:
    """What was ``parted``."""
    return ChunkInput(**msgspec.structs.asdict(items), source=body.source, step=body.step)
