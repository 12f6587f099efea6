"""The names of boundary events."""

from __future__ import annotations

from noetl_compiler.language.events import names_of

__all__ = ["EventName"]


class EventName(str):
    """The name of a boundary event; it equals all its synonyms (semantics.md 8)."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other in names_of(str.__str__(self))

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)
