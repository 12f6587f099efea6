"""Find the only expression in the syntax tree of a template."""

from __future__ import annotations

from jinja2 import nodes

__all__ = ["lone_expression_node"]


def lone_expression_node(template: nodes.Template) -> nodes.Expr | None:
    """Return the only expression of a template if everything else is white space; otherwise None."""
    expressions: list[nodes.Expr] = []
    for node in template.body:
        if not isinstance(node, nodes.Output):
            return None
        expressions += [child for child in node.nodes if not _is_blank(child)]
    return expressions[0] if len(expressions) == 1 and not isinstance(expressions[0], nodes.TemplateData) else None


def _is_blank(node: nodes.Expr) -> bool:
    return isinstance(node, nodes.TemplateData) and not node.data.strip()
