"""Rewrite the syntax tree of a template so that all its operations are charged (see sandbox.py)."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.visitor import NodeTransformer

from noetl_compiler.templating.budget import NotDataError, check_number, check_text
from noetl_compiler.templating.filters import AS_TEXT, CONCATENATED, COUNTED, HELD, WEIGHED, WORKED

__all__ = ["LONE", "prepare"]

LONE = "lone_expression_value"
"""The variable to which a rewritten template assigns the value of its lone expression."""

_STEPS_A_PASS, _STEPS_A_NODE, _STEPS_A_LOOKUP, _STEPS_A_LITERAL = 14, 2, 7, 40
_STEPS_A_LOOP_VALUE, _STEPS_A_MACRO, _STEPS_A_NAMESPACE, _STEPS_A_BUFFER = 45, 100, 15, 30
"""The cost of one pass through a body, beside that of the filters and calls in it, which charge for themselves."""

_REFUSED = (nodes.Block, nodes.Extends, nodes.FromImport, nodes.Import, nodes.Include)


def prepare(template: nodes.Template) -> bool:
    """Rewrite a template in place. Return whether it is a lone expression, whose value is then assigned to ``LONE``."""
    expression = _lone(template)
    if expression is not None:
        target = nodes.Name(LONE, "store")
        assign = nodes.Assign(target, expression)
        template.body = [assign]
    _Metering(template).visit(template)
    for node in template.find_all(nodes.Node):
        node.environment = template.environment
        node.lineno = node.lineno or 1
    return expression is not None


def _lone(template: nodes.Template) -> nodes.Expr | None:
    """Return the only expression of a template if everything else is whitespace."""
    found: list[nodes.Expr] = []
    for node in template.body:
        if not isinstance(node, nodes.Output):
            return None
        found += [child for child in node.nodes if not _is_blank(child)]
    return found[0] if len(found) == 1 and not isinstance(found[0], nodes.TemplateData) else None


def _is_blank(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.TemplateData) and not node.data.strip()


class _Metering(NodeTransformer):
    # ruff: noqa: N802 - the visitor's protocol names its methods after the nodes
    def __init__(self, template: nodes.Template) -> None:
        self._environment = template.environment
        self._repeated = 0

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, _REFUSED):
            raise TemplateSyntaxError("a playbook's template cannot use other templates or blocks", node.lineno)
        return super().generic_visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        work = nodes.Const(_work(node))
        self._repeat(node)
        node.iter = self._filter(node.iter, COUNTED, work)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._called(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._called(node)

    def _called(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:
        work = nodes.Const(_STEPS_A_MACRO + _work(node))
        self._repeat(node)
        node.body.insert(0, nodes.Output([self._filter(nodes.Const(""), WORKED, work)]))
        return node

    def _repeat(self, node: nodes.Node) -> nodes.Node:
        """Charge a loop or macro body at each execution."""
        self._repeated += 1
        self.generic_visit(node)
        self._repeated -= 1
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        """Charge each value, and with the first of them the fixed text around, which a loop makes again and again."""
        static = sum(len(child.data) for child in node.nodes if isinstance(child, nodes.TemplateData))
        self.generic_visit(node)
        if not static or not self._repeated:
            node.nodes = [self._written(child) for child in node.nodes]
            return node
        if all(isinstance(child, nodes.TemplateData) for child in node.nodes):
            node.nodes.append(nodes.Const(""))
        written: list[nodes.Expr] = []
        for child in node.nodes:
            written.append(self._written(child, static))
            static = 0 if written[-1] is not child else static
        node.nodes = written
        return node

    def _written(self, child: nodes.Expr, static: int = 0) -> nodes.Expr:
        if isinstance(child, nodes.TemplateData):
            return child
        return self._filter(child, AS_TEXT, *([nodes.Const(static)] if static else []))

    def visit_Const(self, node: nodes.Const) -> nodes.Node:
        try:
            if isinstance(node.value, str):
                check_text(node.value)
            elif isinstance(node.value, int):
                check_number(node.value)
        except (NotDataError, UnicodeEncodeError) as error:
            raise TemplateSyntaxError(f"a literal that is not data: {error}", node.lineno) from error
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:
        self.generic_visit(node)
        return self._filter(nodes.List(node.nodes), CONCATENATED)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        return self._literal(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        return self._literal(node) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        return self._literal(node)

    def _literal(self, node: nodes.List | nodes.Tuple | nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return node if _is_constant(node) else self._filter(node, WEIGHED)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        if len(node.ops) == 1 and node.ops[0].op in ("in", "notin"):
            return self._membership(node)
        cheap = all(_is_constant(operand.expr) for operand in node.ops) or (
            _is_constant(node.expr) and len(node.ops) == 1
        )
        self.generic_visit(node)
        if not cheap:
            node.expr = self._filter(node.expr, WEIGHED)
            for operand in node.ops:
                is_searched = operand.op in ("in", "notin")
                operand.expr = self._filter(operand.expr, WEIGHED, *([nodes.Const(True)] if is_searched else []))
        return node

    def _membership(self, node: nodes.Compare) -> nodes.Node:
        """Replace ``a in b`` by a filter, as its cost depends on both operands, unless ``b`` is a constant list."""
        [operand] = node.ops
        self.generic_visit(node)
        if _is_constant(operand.expr) and not isinstance(operand.expr, nodes.Const):
            return node
        found = self._filter(operand.expr, HELD, node.expr)
        return found if operand.op == "in" else nodes.Not(found, lineno=node.lineno, environment=self._environment)

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        sliced = isinstance(node.arg, nodes.Slice)
        self.generic_visit(node)
        return self._filter(node, WEIGHED) if sliced else node

    def _filter(self, node: nodes.Node, name: str, *args: nodes.Expr) -> nodes.Filter:
        place = {"lineno": node.lineno, "environment": self._environment}
        return nodes.Filter(node, name, list(args), [], None, None, **place)


def _work(node: nodes.Node) -> int:
    """Return the steps of one pass through a body, computed from its nodes, so that they need no charges themselves."""
    return _STEPS_A_PASS + sum(map(_steps_of, node.find_all((nodes.Expr, nodes.Stmt))))


def _steps_of(node: nodes.Node) -> int:
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name) and node.node.name == "loop":
        return _STEPS_A_LOOP_VALUE
    if isinstance(node, nodes.Getattr | nodes.Getitem):
        return _STEPS_A_LOOKUP
    if isinstance(node, nodes.AssignBlock | nodes.FilterBlock):
        return _STEPS_A_BUFFER
    if isinstance(node, nodes.NSRef):
        return _STEPS_A_NAMESPACE
    if isinstance(node, nodes.Literal) and not isinstance(node, nodes.Const | nodes.TemplateData):
        return _STEPS_A_LITERAL
    return _STEPS_A_NODE


def _is_constant(node: nodes.Node) -> bool:
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(isinstance(item, nodes.Const) for item in node.items)
    return isinstance(node, nodes.Const)
