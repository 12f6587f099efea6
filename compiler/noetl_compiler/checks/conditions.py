"""Conditions that decide nothing."""

from __future__ import annotations

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.codes import Code
from noetl_compiler.report import Report
from noetl_compiler.syntax import Playbook
from noetl_compiler.template_paths import free_paths
from noetl_compiler.template_program import parsed
from noetl_compiler.template_uses import uses
from noetl_compiler.templates import predicate

__all__ = ["warn_of_constant_conditions"]


def warn_of_constant_conditions(playbook: Playbook, report: Report) -> None:
    """NT305. ``true`` and ``{{ true }}`` say what they mean and are none."""
    for use in uses(playbook):
        source = use.template.source
        if not use.is_predicate or "{{" not in source or "{%" in source:
            continue
        try:
            tree, reads = parsed(source), free_paths(source)
        except TemplateSyntaxError:
            continue
        if _has_text(tree):
            message = "the text around the expression makes this condition always true"
            report.warning(Code.CONSTANT_CONDITION, use.template.span, message, "put all of it into the braces")
        elif not reads and not _is_plain(tree):
            answer = "true" if predicate(source, {}).matched else "false"
            message = f"this condition reads nothing, so it is always {answer}"
            report.warning(Code.CONSTANT_CONDITION, use.template.span, message, "compare something the run decides")


def _has_text(tree: nodes.Template) -> bool:
    return any(text.data.strip() for text in tree.find_all(nodes.TemplateData))


def _is_plain(tree: nodes.Template) -> bool:
    """Whether nothing but ``true`` or ``false`` stands there."""
    shown = [node for output in tree.find_all(nodes.Output) for node in output.nodes]
    said = [node for node in shown if not isinstance(node, nodes.TemplateData)]
    return all(isinstance(node, nodes.Const) and isinstance(node.value, bool) for node in said)
