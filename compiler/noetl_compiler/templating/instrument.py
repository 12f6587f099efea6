"""Rewrite the syntax tree of a template so that its budget is charged for all operations (see sandbox.py)."""

from __future__ import annotations

from typing import Any

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.visitor import NodeTransformer

from noetl_compiler.templating.budget import NotDataError, check_number, check_text
from noetl_compiler.templating.filters import CHARGE_BODY, CHARGE_VALUE, CONCATENATE, CONTAINS, COUNT_ITEMS, TO_STRING
from noetl_compiler.templating.lone_expression import lone_expression_node

__all__ = ["LONE_VALUE", "add_charges"]

LONE_VALUE = "lone_expression_value"
"""The variable to which a rewritten template assigns the value of its lone expression."""

_STEPS_PER_PASS, _STEPS_PER_NODE, _STEPS_PER_LOOKUP, _STEPS_PER_LITERAL = 14, 2, 7, 40
_STEPS_PER_LOOP_VALUE, _STEPS_PER_MACRO, _STEPS_PER_NAMESPACE, _STEPS_PER_BUFFER = 45, 100, 15, 30
"""The cost of nodes in one pass through a body. Filters and calls charge their own costs."""

_FORBIDDEN_NODES = (nodes.Block, nodes.Extends, nodes.FromImport, nodes.Import, nodes.Include)


def add_charges(template: nodes.Template) -> bool:
    """Rewrite a template in place. Return whether it is a lone expression, whose value is then assigned to
    ``LONE_VALUE``.
    """
    expression = lone_expression_node(template)
    if expression is not None:
        target = nodes.Name(LONE_VALUE, "store")
        assign = nodes.Assign(target, expression)
        template.body = [assign]
    _ChargeInserter(template).visit(template)
    for node in template.find_all(nodes.Node):
        node.environment = template.environment
        node.lineno = node.lineno or 1
    return expression is not None


class _ChargeInserter(NodeTransformer):
    # ruff: noqa: N802 - the visitor's protocol names its methods after the nodes
    def __init__(self, template: nodes.Template) -> None:
        self._environment = template.environment
        self._repeat_depth = 0

    def generic_visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> nodes.Node:
        if isinstance(node, _FORBIDDEN_NODES):
            raise TemplateSyntaxError("a playbook's template cannot use other templates or blocks", node.lineno)
        return super().generic_visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For) -> nodes.Node:
        steps = nodes.Const(_steps_of_pass(node))
        self._visit_repeated(node)
        node.iter = self._apply_filter(node.iter, COUNT_ITEMS, steps)
        return node

    def visit_Macro(self, node: nodes.Macro) -> nodes.Node:
        return self._charge_calls(node)

    def visit_CallBlock(self, node: nodes.CallBlock) -> nodes.Node:
        return self._charge_calls(node)

    def _charge_calls(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:
        steps = nodes.Const(_STEPS_PER_MACRO + _steps_of_pass(node))
        self._visit_repeated(node)
        node.body.insert(0, nodes.Output([self._apply_filter(nodes.Const(""), CHARGE_BODY, steps)]))
        return node

    def _visit_repeated(self, node: nodes.Node) -> nodes.Node:
        """Visit the body of a loop or macro, whose literal text is charged at each execution."""
        self._repeat_depth += 1
        self.generic_visit(node)
        self._repeat_depth -= 1
        return node

    def visit_Output(self, node: nodes.Output) -> nodes.Node:
        """Charge each value; inside a loop or macro the first also charges for the literal text, which is output each
        time.
        """
        literal_chars = sum(len(child.data) for child in node.nodes if isinstance(child, nodes.TemplateData))
        self.generic_visit(node)
        if not literal_chars or not self._repeat_depth:
            node.nodes = [self._with_string_filter(child) for child in node.nodes]
            return node
        if all(isinstance(child, nodes.TemplateData) for child in node.nodes):
            node.nodes.append(nodes.Const(""))
        children: list[nodes.Expr] = []
        for child in node.nodes:
            children.append(self._with_string_filter(child, literal_chars))
            literal_chars = 0 if children[-1] is not child else literal_chars
        node.nodes = children
        return node

    def _with_string_filter(self, child: nodes.Expr, literal_chars: int = 0) -> nodes.Expr:
        if isinstance(child, nodes.TemplateData):
            return child
        return self._apply_filter(child, TO_STRING, *([nodes.Const(literal_chars)] if literal_chars else []))

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
        return self._apply_filter(nodes.List(node.nodes), CONCATENATE)

    def visit_List(self, node: nodes.List) -> nodes.Node:
        return self._charge_literal(node)

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:
        return self._charge_literal(node) if node.ctx == "load" else node

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:
        return self._charge_literal(node)

    def _charge_literal(self, node: nodes.List | nodes.Tuple | nodes.Dict) -> nodes.Node:
        self.generic_visit(node)
        return node if _is_constant(node) else self._apply_filter(node, CHARGE_VALUE)

    def visit_Compare(self, node: nodes.Compare) -> nodes.Node:
        if len(node.ops) == 1 and node.ops[0].op in ("in", "notin"):
            return self._charge_membership(node)
        is_constant_cost = all(_is_constant(operand.expr) for operand in node.ops) or (
            _is_constant(node.expr) and len(node.ops) == 1
        )
        self.generic_visit(node)
        if not is_constant_cost:
            node.expr = self._apply_filter(node.expr, CHARGE_VALUE)
            for operand in node.ops:
                is_searched = operand.op in ("in", "notin")
                operand.expr = self._apply_filter(
                    operand.expr, CHARGE_VALUE, *([nodes.Const(True)] if is_searched else [])
                )
        return node

    def _charge_membership(self, node: nodes.Compare) -> nodes.Node:
        """Replace ``a in b`` by a filter, as its cost depends on both operands, unless ``b`` is a constant list."""
        [operand] = node.ops
        self.generic_visit(node)
        if _is_constant(operand.expr) and not isinstance(operand.expr, nodes.Const):
            return node
        contains = self._apply_filter(operand.expr, CONTAINS, node.expr)
        return (
            contains if operand.op == "in" else nodes.Not(contains, lineno=node.lineno, environment=self._environment)
        )

    def visit_Getitem(self, node: nodes.Getitem) -> nodes.Node:
        is_slice = isinstance(node.arg, nodes.Slice)
        self.generic_visit(node)
        return self._apply_filter(node, CHARGE_VALUE) if is_slice else node

    def _apply_filter(self, node: nodes.Node, name: str, *args: nodes.Expr) -> nodes.Filter:
        position = {"lineno": node.lineno, "environment": self._environment}
        return nodes.Filter(node, name, list(args), [], None, None, **position)


def _steps_of_pass(node: nodes.Node) -> int:
    """Return the steps of one pass through a body: the sum of the costs of its nodes."""
    return _STEPS_PER_PASS + sum(map(_steps_of, node.find_all((nodes.Expr, nodes.Stmt))))


def _steps_of(node: nodes.Node) -> int:
    if isinstance(node, nodes.Getattr) and isinstance(node.node, nodes.Name) and node.node.name == "loop":
        return _STEPS_PER_LOOP_VALUE
    if isinstance(node, nodes.Getattr | nodes.Getitem):
        return _STEPS_PER_LOOKUP
    if isinstance(node, nodes.AssignBlock | nodes.FilterBlock):
        return _STEPS_PER_BUFFER
    if isinstance(node, nodes.NSRef):
        return _STEPS_PER_NAMESPACE
    if isinstance(node, nodes.Literal) and not isinstance(node, nodes.Const | nodes.TemplateData):
        return _STEPS_PER_LITERAL
    return _STEPS_PER_NODE


def _is_constant(node: nodes.Node) -> bool:
    if isinstance(node, nodes.List | nodes.Tuple):
        return all(isinstance(item, nodes.Const) for item in node.items)
    return isinstance(node, nodes.Const)
