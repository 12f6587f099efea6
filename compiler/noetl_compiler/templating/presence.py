"""Where a template asks for the truth of a name, an undefined name is false (dev/decisions/0095).

These places are the test of an ``if`` and the left side of an ``or``, and the operands of ``and``, ``or`` and ``not``
inside of them: the template says what to use instead. ``not error`` is one everywhere, as ``error`` is undefined after
each success. Every other use of an undefined name raises.
"""

from __future__ import annotations

from jinja2 import nodes

from noetl_compiler.language.names import OPTIONAL_OUTCOME_NAMES
from noetl_compiler.templating.filters import FALSE_IF_UNDEFINED

__all__ = ["allow_undefined"]


def allow_undefined(template: nodes.Template) -> None:
    """Rewrite a template in place, so that undefined names are false where it asks for their truth."""
    for node in template.find_all((nodes.CondExpr, nodes.If, nodes.For, nodes.Or, nodes.Not)):
        match node:
            case nodes.CondExpr():
                node.test = _asked(node.test)
            case nodes.If(test=nodes.Expr() as test) | nodes.For(test=nodes.Expr() as test):
                node.test = _asked(test)
            case nodes.Or():
                node.left = _asked(node.left)
            case nodes.Not(node=nodes.Name(name=name)) if name in OPTIONAL_OUTCOME_NAMES:
                node.node = _asked(node.node)
            case _:
                pass


def _asked(node: nodes.Expr) -> nodes.Expr:
    match node:
        case nodes.And() | nodes.Or():
            node.left, node.right = _asked(node.left), _asked(node.right)
        case nodes.Not():
            node.node = _asked(node.node)
        case nodes.Name() | nodes.Getattr() | nodes.Getitem():
            return nodes.Filter(node, FALSE_IF_UNDEFINED, [], [], None, None, lineno=node.lineno)
        case _:
            pass
    return node
