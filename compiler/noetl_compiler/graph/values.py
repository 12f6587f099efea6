"""The building blocks of a graph: values with templates, spans, assignments, timeouts."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

__all__ = ["Assign", "Json", "Span", "Template", "Timeout", "Value"]

Json: TypeAlias = Any
"""A JSON value. msgspec cannot express the recursive type (dev/decisions/0002)."""


class Span(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A range in the source text: 1-based lines and columns, with an exclusive end."""

    line: int
    col: int
    end_line: int
    end_col: int

    def contains(self, inner: Span) -> bool:
        """Whether ``inner`` begins and ends within this span."""
        starts_inside = (self.line, self.col) <= (inner.line, inner.col)
        return starts_inside and (inner.end_line, inner.end_col) <= (self.end_line, self.end_col)


class Template(msgspec.Struct, frozen=True):
    """A Jinja2 source with its span: ``"{{ a == 1 }}"``."""

    source: str
    span: Span


class Value(msgspec.Struct, frozen=True):
    """JSON with templates at the JSON pointers in ``templates``."""

    data: Json = None
    templates: dict[str, Span] = {}


class Assign(msgspec.Struct, frozen=True):
    """One entry of ``set``. ``target`` is a dotted path with its root, ``ctx.a.b`` or ``iter.x``.

    ``ctx.a[]`` appends the value to a list, ``ctx.a[*]`` each item of the value; ``ctx.a[+]`` adds it to a number,
    ``ctx.a[|]`` merges it into a mapping. Parallel iterations do this in their order; assigning the whole name instead
    would overwrite what the others set (semantics.md 16).
    """

    target: str
    value: Value
    span: Span


class Timeout(msgspec.Struct, frozen=True):
    """Seconds, each a number or a template that yields one (semantics.md 21)."""

    total: Value | None = None
    connect: Value | None = None
    read: Value | None = None
