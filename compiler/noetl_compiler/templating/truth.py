"""Evaluate conditions in three-valued logic when only part of the scope is known.

``{{ event.name == 'call.done' and response.ok }}`` is false at the event ``step.exit``, whatever the response, and
unknown at ``call.done``. A path of the scope may be known to have a value, to have one of several synonymous values
(:class:`Synonyms`), or to be absent; comparisons with an absent path are false.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeAlias, cast

import msgspec
from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.templating.lone_expression import lone_expression_node
from noetl_compiler.templating.program import parse_template

__all__ = [
    "ABSENT",
    "PRESENT",
    "KnownValues",
    "Synonyms",
    "read_expression",
    "string_constants",
    "truth",
]

ABSENT = object()
"""The value of a path that is not bound."""

PRESENT = object()
"""The value of a path that is bound to an unknown value."""

_UNKNOWN = object()


class Synonyms(msgspec.Struct, frozen=True):
    """A string that is equal to each of several words."""

    words: frozenset[str]


KnownValues: TypeAlias = Mapping[str, object]
"""Dotted path -> its value, :class:`Synonyms`, ``PRESENT`` or ``ABSENT``. Paths below an absent one are absent."""


def read_expression(source: str) -> nodes.Expr | None:
    """Return the syntax tree of the only expression of a template; None if there is none, and if it does not parse."""
    try:
        return lone_expression_node(parse_template(source))
    except (TemplateSyntaxError, RecursionError):
        return None


def string_constants(source: str) -> tuple[str, ...]:
    """Return the string constants of a lone expression, in reading order."""
    expression = read_expression(source)
    constants = () if expression is None else expression.find_all(nodes.Const)
    return tuple(constant.value for constant in constants if isinstance(constant.value, str))


def truth(node: nodes.Expr, known_values: KnownValues) -> bool | None:
    """Return the result of a condition: True, False, or None if it depends on something unknown."""
    match node:
        case nodes.And():
            return _both(truth(node.left, known_values), truth(node.right, known_values))
        case nodes.Or():
            return _either(truth(node.left, known_values), truth(node.right, known_values))
        case nodes.Not():
            inner = truth(node.node, known_values)
            return None if inner is None else not inner
        case nodes.Test() if node.name in ("defined", "undefined"):
            return _test_defined(node, known_values)
        case nodes.Test() if node.name == "none":
            value = _value(node.node, known_values)
            return None if value is _UNKNOWN else value is None
        case nodes.Compare():
            return _compare(node, known_values)
        case _:
            value = _value(node, known_values)
            return None if value in (_UNKNOWN, PRESENT) else value is not ABSENT and bool(value)


def _both(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _either(left: bool | None, right: bool | None) -> bool | None:
    if left or right:
        return True
    return None if left is None or right is None else False


def _test_defined(node: nodes.Test, known_values: KnownValues) -> bool | None:
    value = _value(node.node, known_values)
    if value is _UNKNOWN:
        return None
    return (value is not ABSENT) == (node.name == "defined")


def _compare(node: nodes.Compare, known_values: KnownValues) -> bool | None:
    values = [_value(part, known_values) for part in (node.expr, *(operand.expr for operand in node.ops))]
    if ABSENT in values:
        return False
    compare = _COMPARISONS.get(node.ops[0].op) if len(node.ops) == 1 else None
    if compare is None or _UNKNOWN in values or PRESENT in values:
        return None
    return compare(*values)


def _equal(left: object, right: object) -> bool:
    for value, other in ((left, right), (right, left)):
        if isinstance(value, Synonyms):
            return other in value.words if isinstance(other, str) else value == other
    return left == right


def _is_among(left: object, right: object) -> bool | None:
    return any(_equal(left, item) for item in cast("tuple[object, ...]", right)) if isinstance(right, tuple) else None


def _is_not_among(left: object, right: object) -> bool | None:
    is_among = _is_among(left, right)
    return None if is_among is None else not is_among


_COMPARISONS: Mapping[str, Callable[[object, object], bool | None]] = MappingProxyType(
    {
        "eq": _equal,
        "ne": lambda left, right: not _equal(left, right),
        "in": _is_among,
        "notin": _is_not_among,
    }
)


def _value(node: nodes.Expr, known_values: KnownValues) -> object:
    """Return a constant, a list of constants as a tuple, the known value of a path, or ``_UNKNOWN``."""
    match node:
        case nodes.Const():
            return node.value
        case nodes.List() | nodes.Tuple():
            items = tuple(_value(item, known_values) for item in node.items)
            return _UNKNOWN if _UNKNOWN in items else items
        case _:
            return _value_of_path(_path(node), known_values)


def _value_of_path(path: tuple[str, ...], known_values: KnownValues) -> object:
    if ".".join(path) in known_values:
        return known_values[".".join(path)]
    paths_above = (".".join(path[:length]) for length in range(1, len(path)))
    return ABSENT if any(known_values.get(path_above) is ABSENT for path_above in paths_above) else _UNKNOWN


def _path(node: nodes.Node) -> tuple[str, ...]:
    """Return the names of ``a.b`` or ``a['b']``; empty for any other expression."""
    match node:
        case nodes.Name():
            return (node.name,)
        case nodes.Getattr():
            inner, name = _path(node.node), node.attr
        case nodes.Getitem(arg=nodes.Const(value=str(name))):
            inner = _path(node.node)
        case _:
            return ()
    return (*inner, name) if inner else ()
