"""What the parts of a graph are made of: values with their templates, places, assignments, times."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

__all__ = ["Assign", "Json", "Span", "Template", "Timeout", "Value"]

Json: TypeAlias = Any
"""A JSON value. msgspec cannot express the recursive type (dev/decisions/0002)."""


class Span(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A place in the playbook's text: 1-based lines and columns, the end exclusive."""

    line: int
    col: int
    end_line: int
    end_col: int


class Template(msgspec.Struct, frozen=True):
    """A Jinja2 source with its place: ``"{{ a == 1 }}"``."""

    source: str
    span: Span


class Value(msgspec.Struct, frozen=True):
    """JSON with templates at the pointers listed in ``templates``."""

    data: Json = None
    templates: dict[str, Span] = {}


class Assign(msgspec.Struct, frozen=True):
    """One ``set`` entry: ``target`` is dotted and always rooted (``ctx.a.b``, ``iter.x``).

    ``ctx.a[]`` adds the value to the list there, ``ctx.a[*]`` each item of the value, ``ctx.a[+]`` adds to the number
    there, ``ctx.a[|]`` merges into the map there: parallel iterations add in their order, where one that sets the whole
    would overwrite the others' (semantics.md 16).
    """

    target: str
    value: Value
    span: Span


class Timeout(msgspec.Struct, frozen=True):
    """Seconds, each a number or a template that yields one (semantics.md 21)."""

    total: Value | None = None
    connect: Value | None = None
    read: Value | None = None
