"""Python code that is not valid, reads undefined names, has no result, or contains templates."""

from __future__ import annotations

import ast
import re

from noetl_compiler.bound_names import tasks_with_bound_names
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import nearest
from noetl_compiler.graph import Span, Value
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.python_code import GIVEN, SyntaxProblem, gives_result, parsed, splices, undefined_names
from noetl_compiler.reading.scalar_places import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.source import expressions
from noetl_compiler.syntax import ForeignText, Playbook, Task
from noetl_compiler.templating.paths import lone_path
from noetl_compiler.value_merge import names_in

__all__ = ["check_python_code"]

_VERBATIM = "Python code contains a template, but code is not rendered"
_RENDERED = "a template in Python code is replaced by the text of its value: a string has no quotes there"
_BIND = "pass the value with input and use its name"
_NO_RESULT = "set result, or return a value from main()"
_NOT_BOUND = "pass it with input, or import or define it"
_VISIBLE = re.compile(r"[^\r\n]")


def check_python_code(playbook: Playbook, report: Report) -> None:
    """NT504 and NT507 to NT509. A script with templates in it is code only after they are rendered."""
    for task, bound in tasks_with_bound_names(playbook):
        for text in task.texts if task.kind.text == "python" else ():
            if text.field == "code" or text.node.template_span is None:
                _check(text, task, _with_libs(task, bound), report)


def _with_libs(task: Task, bound: frozenset[str] | None) -> frozenset[str] | None:
    """The aliases of ``libs``; a list of them names what is to be installed and binds nothing."""
    libs = names_in(task.config).get("libs")
    if bound is None or isinstance(libs, str):
        return None
    return bound | names_in(Value(libs)).keys()


def _check(text: ForeignText, task: Task, bound: frozenset[str] | None, report: Report) -> None:
    node, tree = text.node, parsed(text.node.text)
    is_rendered = f"/{text.field}" in task.config.templates
    if isinstance(tree, SyntaxProblem):
        _check_syntax(node, tree, report)
    elif tree is not None and not (is_rendered and lone_path(node.text.strip())):
        found = splices(node.text, tree)
        _warn_of_templates(node, found, is_rendered, report)
        if report.has_error_in(task.span):
            return
        if not found and not gives_result(tree) and "result" not in (bound or ()):
            report.warning(Code.NO_PYTHON_RESULT, node.span, "the code gives no result", _NO_RESULT)
        if bound is not None:
            _warn_of_names(node, tree, bound, report)


def _check_syntax(node: ScalarNode, problem: SyntaxProblem, report: Report) -> None:
    """A template may be all that is wrong, but for the braces of an f-string."""
    is_template = node.template_span is not None and not problem.message.startswith("f-string")
    if is_template and _is_python_without_templates(node.text):
        report.warning(Code.TEMPLATE_IN_CODE, node.template_span or node.span, _VERBATIM, _BIND)
        return
    span = _place(node, problem.start, problem.end, report)
    report.error(Code.PYTHON_SYNTAX, span, f"syntax error in Python code: {problem.message}", problem.hint)


def _is_python_without_templates(code: str) -> bool:
    if "{%" in code:
        return True  # it may be, once they are rendered
    for start, end in expressions(code):
        code = f"{code[:start]}0{_VISIBLE.sub(' ', code[start + 1 : end])}{code[end:]}"
    return not isinstance(parsed(code), SyntaxProblem)


def _warn_of_templates(node: ScalarNode, found: tuple[tuple[int, int], ...], is_rendered: bool, report: Report) -> None:
    for start, end in found:
        message = _RENDERED if is_rendered else _VERBATIM
        report.warning(Code.TEMPLATE_IN_CODE, _place(node, start, end, report), message, _BIND)


def _warn_of_names(node: ScalarNode, tree: ast.Module, bound: frozenset[str], report: Report) -> None:
    for name in undefined_names(node.text, tree, bound):
        span = _place(node, name.start, name.end, report)
        hint = nearest(name.name, bound | GIVEN, alike=0.75) or _NOT_BOUND
        report.warning(Code.UNDEFINED_PYTHON_NAME, span, f'"{name.name}" is not defined in this code', hint)


def _place(node: ScalarNode, start: int, end: int, report: Report) -> Span:
    """The place of a part of the code; where it is blank, that of the last character before it."""
    before = len(node.text[:end].rstrip())
    return (
        span_in_scalar(report.source, node, start, end)
        or span_in_scalar(report.source, node, before - 1, before)
        or node.span
    )
