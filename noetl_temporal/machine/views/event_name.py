"""The names of boundary events."""

from __future__ import annotations

from typing import ClassVar

__all__ = ["EventName"]


class EventName(str):
    """A boundary event's name; it equals every name that was ever used for the boundary (semantics.md 8)."""

    __slots__ = ()
    _SYNONYMS: ClassVar[dict[str, frozenset[str]]] = {
        "step.done": frozenset({"call.done", "step.exit", "loop.item"}),
        "step.failed": frozenset({"call.error", "step.exit"}),
        "step.skipped": frozenset({"step.enter"}),
        "loop.done": frozenset({"step.done", "step.exit"}),
        "loop.failed": frozenset({"step.failed", "call.error", "step.exit"}),
    }

    def __eq__(self, other: object) -> bool:
        name = str.__str__(self)
        return name == other or other in self._SYNONYMS.get(name, ())

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)
