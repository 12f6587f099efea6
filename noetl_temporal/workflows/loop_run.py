"""The arguments and the result of a loop workflow: JSON in history, which the mirror reads by key."""

from __future__ import annotations

from typing import Any

import msgspec

from noetl_compiler.graph import Json, NamesProfile, SourceRef, Step
from noetl_compiler.graph.pinned import NO_CALLS, PinnedCalls
from noetl_compiler.language.words import BranchFailure
from noetl_temporal.limits import INLINE_BYTES
from noetl_temporal.machine.commands import ChunkInput, ChunkItems
from noetl_temporal.machine.facts import ChunkReport
from noetl_temporal.messages.packed_trail import PackedTrail
from noetl_temporal.messages.shared_part import SharedPart
from noetl_temporal.payloads.stored_values import reference

__all__ = ["LoopBody", "LoopEnd", "LoopRun", "items_and_scope", "join_input", "split_input", "with_items"]


class LoopBody(SharedPart, frozen=True, omit_defaults=True):
    """The second argument, which is the same for every chunk and every run of a loop. For a loop that calls playbooks,
    ``calls`` are those that its playbook may call, and ``caller`` is the digest of that playbook's graph. For ``steps``
    and ``branch_failure``, see ChunkInput.
    """

    source: SourceRef
    step: Step
    names: NamesProfile = NamesProfile()
    calls: PinnedCalls = NO_CALLS
    caller: str = ""
    steps: dict[str, Step] = msgspec.field(default_factory=dict[str, Step])
    branch_failure: BranchFailure = "best_effort"


class LoopRun(msgspec.Struct, frozen=True, omit_defaults=True):
    """The first argument of a loop workflow. For ``queues``, ``limit``, ``depth``, ``state``, ``trail`` and ``after``,
    see RunInput.
    """

    input: ChunkItems
    queues: dict[str, str] = {}
    limit: int = INLINE_BYTES
    depth: int = 0
    state: Json = None
    trail: PackedTrail | None = None
    after: int = 0


class LoopEnd(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of a loop workflow. ``trail`` has the events that were emitted after its last command."""

    report: ChunkReport
    trail: PackedTrail | None = None


def split_input(chunk_input: ChunkInput) -> tuple[ChunkItems, LoopBody]:
    """Split the input of a chunk into the part of this chunk, without items and scope, and the part that all chunks of
    the loop share.
    """
    fields: dict[str, Any] = {name: getattr(chunk_input, name) for name in ChunkItems.__struct_fields__}
    fields |= {"items": [], "scope": {}}
    return ChunkItems(**fields), LoopBody(
        chunk_input.source,
        chunk_input.step,
        chunk_input.names,
        steps=chunk_input.steps,
        branch_failure=chunk_input.branch_failure,
    )


def items_and_scope(chunk: ChunkItems, items: list[Json], scope: dict[str, Json]) -> tuple[Any, Any]:
    """Return the third and the fourth argument: items and scope, or references to stored ones, so that the caller need
    not load them.
    """
    if chunk.stored_items is None:
        return items, scope
    return reference(chunk.stored_items.key), reference(chunk.scope_key) if chunk.scope_key else scope


def join_input(chunk: ChunkItems, body: LoopBody, items: list[Json], scope: dict[str, Json]) -> ChunkInput:
    """Return the input of a chunk from the four arguments of its workflow."""
    body_fields = {name: getattr(body, name) for name in ("source", "step", "names", "steps", "branch_failure")}
    chunk_input = ChunkInput(**msgspec.structs.asdict(chunk), **body_fields)
    return with_items(chunk_input, items, scope)


def with_items(chunk_input: ChunkInput, items: list[Json], scope: dict[str, Json]) -> ChunkInput:
    """Return the input with its items and its scope. If the items were stored, ``items`` is the whole list of which
    they are a part.
    """
    part = chunk_input.stored_items
    chunk_items = items if part is None else items[part.start : part.start + part.count]
    return msgspec.structs.replace(chunk_input, items=chunk_items, scope=scope, stored_items=None, scope_key="")
