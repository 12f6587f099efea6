"""Treat an undefined name as false where a template tests whether it is true (dev/decisions/0095).

This applies to the test of an ``if``, to the left operand of an ``or``, and to the operands of ``and``, ``or`` and
``not`` in them: there the template has an alternative if the name is undefined. It also applies to ``not error``
anywhere, as ``error`` is undefined after each success. Every other use of an undefined name raises.
"""

from __future__ import annotations

from jinja2 import nodes

from noetl_compiler.language.names import OPTIONAL_OUTCOME_NAMES
from noetl_compiler.templating.filters import FALSE_IF_UNDEFINED

__all__ = ["allow_undefined"]


def allow_undefined(template: nodes.Template) -> None:
    """Rewrite a template in place so that undefined names are false where it tests them."""
    for node in template.find_all((nodes.CondExpr, nodes.If, nodes.For, nodes.Or, nodes.Not)):
        match node:
            case nodes.CondExpr():
                node.test = _false_if_undefined(node.test)
            case nodes.If(test=nodes.Expr() as test) | nodes.For(test=nodes.Expr() as test):
                node.test = _false_if_undefined(test)
            case nodes.Or():
                node.left = _false_if_undefined(node.left)
            case nodes.Not(node=nodes.Name(name=name)) if name in OPTIONAL_OUTCOME_NAMES:
                node.node = _false_if_undefined(node.node)
            case _:
                pass


def _false_if_undefined(node: nodes.Expr) -> nodes.Expr:
    match node:
        case nodes.And() | nodes.Or():
            node.left, node.right = _false_if_undefined(node.left), _false_if_undefined(node.right)
        case nodes.Not():
            node.node = _false_if_undefined(node.node)
        case nodes.Name() | nodes.Getattr() | nodes.Getitem():
            return nodes.Filter(node, FALSE_IF_UNDEFINED, [], [], None, None, lineno=node.lineno)
        case _:
            pass
    return node
