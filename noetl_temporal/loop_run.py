"""The arguments of a loop workflow, and what it returns: JSON in history, read by the mirror by key."""

from __future__ import annotations

import msgspec
from temporalio.common import RawValue

from noetl_compiler.graph import Json, SourceRef, Step
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.commands import ChunkInput, ChunkItems
from noetl_temporal.machine.events import ChunkReport
from noetl_temporal.packed_trail import PackedTrail
from noetl_temporal.shared_part import SharedPart
from noetl_temporal.stored_values import reference

__all__ = ["LoopBody", "LoopEnd", "LoopRun", "joined", "kept_arguments", "parted", "with_kept"]


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


def kept_arguments(given: ChunkItems) -> list[RawValue]:
    """The list that has the items, and the scope, where they lie elsewhere: arguments of their own, so that whoever
    starts the workflow need not have them.
    """
    return [] if given.kept_items is None else [reference(given.kept_items.key), reference(given.kept_scope)]


def joined(
    own: ChunkItems, body: LoopBody, items: list[Json] | None = None, scope: dict[str, Json] | None = None
) -> ChunkInput:
    """What was ``parted``, with its ``kept_arguments``."""
    given = ChunkInput(**msgspec.structs.asdict(own), source=body.source, step=body.step)
    return given if items is None or own.kept_items is None else with_kept(given, items, scope or {})


def with_kept(given: ChunkInput, items: list[Json], scope: dict[str, Json]) -> ChunkInput:
    """The input with what lay elsewhere; ``items`` may have others around its own."""
    part = given.kept_items
    own = items if part is None else items[part.start : part.start + part.count]
    return msgspec.structs.replace(given, items=own, scope=scope, kept_items=None, kept_scope="")
