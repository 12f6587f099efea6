"""Find the possible values of a condition that are certainly not boolean."""

from __future__ import annotations

from typing import NamedTuple

from jinja2 import nodes

__all__ = ["NonBoolean", "non_boolean_values"]

_ARITHMETIC = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow, nodes.Neg, nodes.Pos)


class NonBoolean(NamedTuple):
    """A value of a condition that is not boolean. ``description`` is for people. ``text`` is the value if it is
    a string constant in an ``and``, ``or``, ``not`` or ``if``, otherwise empty.
    """

    description: str
    text: str = ""


def non_boolean_values(expression: nodes.Expr | None) -> tuple[NonBoolean, ...]:
    """Return the values that are not boolean, in reading order. Values commonly tested for emptiness are left out."""
    if expression is None:
        return ()
    values = (_non_boolean(node, is_only=node is expression) for node in _alternatives(expression))
    return tuple(value for value in values if value is not None)


def _alternatives(node: nodes.Expr) -> list[nodes.Expr]:
    """Return the expressions one of which decides the result of a condition."""
    match node:
        case nodes.And() | nodes.Or():
            return [*_alternatives(node.left), *_alternatives(node.right)]
        case nodes.Not():
            return _alternatives(node.node)
        case nodes.CondExpr():
            return [*_alternatives(node.expr1), *(_alternatives(node.expr2) if node.expr2 else ())]
        case _:
            return [node]


def _non_boolean(node: nodes.Expr, *, is_only: bool) -> NonBoolean | None:
    match node:
        case nodes.Concat():
            return NonBoolean("text")
        case nodes.List() | nodes.Tuple():
            return NonBoolean("a list")
        case nodes.Dict():
            return NonBoolean("a mapping")
        case nodes.Const(value=str(text)) if not is_only:
            return NonBoolean("text", text)
        case nodes.Const(value=int() | float()) if not isinstance(node.value, bool):
            return NonBoolean("a number")
        case _ if isinstance(node, _ARITHMETIC):
            return NonBoolean("the result of a calculation")
        case _:
            return None
