"""The boundary events of a step, and every name that playbooks have for them (semantics.md 8).

A run goes through boundaries: a step is entered or skipped, a call ends, a loop ends. Each has one name, and older
dialects had others. A condition may compare with any of them: ``event.name == 'call.done'`` holds at ``step.done``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from noetl_compiler.language.words import Status

__all__ = ["AFTER_CALL", "AFTER_LOOP", "CASE_EVENTS", "ENTERED", "NAMES", "SKIPPED", "CaseEvent", "names_of"]

Boundary: TypeAlias = Literal["step.enter", "step.done", "step.failed", "step.skipped", "loop.done", "loop.failed"]

CaseEvent: TypeAlias = Literal["step.enter", "call.done", "call.error", "step.exit", "loop.item", "loop.done"]
"""The events that a rule of the case dialect can match."""

CASE_EVENTS: tuple[CaseEvent, ...] = get_args(CaseEvent)

ENTERED: Boundary = "step.enter"
SKIPPED: Boundary = "step.skipped"

AFTER_CALL: Mapping[Status, Boundary] = MappingProxyType({"ok": "step.done", "error": "step.failed"})
"""The boundary after a call, and after a step without a loop, by its status."""

AFTER_LOOP: Mapping[Status, Boundary] = MappingProxyType({"ok": "loop.done", "error": "loop.failed"})
"""The boundary after a whole loop, by its status."""

_SYNONYMS: Mapping[Boundary, tuple[str, ...]] = MappingProxyType(
    {
        "step.enter": (),
        "step.done": ("call.done", "step.exit", "loop.item"),
        "step.failed": ("call.error", "step.exit"),
        "step.skipped": ("step.enter",),
        "loop.done": ("step.done", "step.exit"),
        "loop.failed": ("step.failed", "call.error", "step.exit"),
    }
)

_NAMES: Mapping[str, frozenset[str]] = MappingProxyType(
    {boundary: frozenset({boundary, *others}) for boundary, others in _SYNONYMS.items()}
)

NAMES: frozenset[str] = frozenset[str]().union(*_NAMES.values())
"""All names of events."""


def names_of(boundary: str) -> frozenset[str]:
    """Return every name that ``event.name`` equals at a boundary."""
    return _NAMES.get(boundary, frozenset({boundary}))
