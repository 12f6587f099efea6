"""Python code with syntax errors, undefined names, no result, or templates."""

from __future__ import annotations

import ast

from noetl_compiler.bound_names import tasks_with_bound_names
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.graph import Span, Value
from noetl_compiler.nodes import ScalarNode
from noetl_compiler.python_code import (
    TOOL_NAMES,
    PythonSyntaxError,
    gives_result,
    parse_code,
    replace_with_numbers,
    undefined_names,
)
from noetl_compiler.reading.scalar_positions import span_in_scalar
from noetl_compiler.report import Report
from noetl_compiler.source import expression_ranges, lone_expression
from noetl_compiler.syntax import ForeignText, Playbook, Task
from noetl_compiler.value_merge import mapping_of

__all__ = ["check_python_code", "check_python_text"]

_NOT_RENDERED = "Python code contains a template, but code is not rendered"
_REPLACED_BY_LITERAL = "a template in Python code is replaced by the Python literal of its value"
_USE_INPUT = "pass the value with input and use its name"
_ADD_RESULT = "set result, or return a value from main()"
_DEFINE_NAME = "pass it with input, import it or define it"


def check_python_code(playbook: Playbook, report: Report) -> None:
    """Report NT504 and NT507 to NT509. Scripts that contain templates are not checked: they are rendered first."""
    for task, bound_names in tasks_with_bound_names(playbook):
        for text in task.texts if task.kind.text == "python" else ():
            if text.field == "code" or text.node.template_span is None:
                check_python_text(text, task, bound_names, report)


def check_python_text(text: ForeignText, task: Task, bound_names: frozenset[str] | None, report: Report) -> None:
    """Check one text of a task; ``report`` is that of the file that contains it."""
    _check_code(text, task, _bound_with_libs(task, bound_names), report)


def _bound_with_libs(task: Task, bound_names: frozenset[str] | None) -> frozenset[str] | None:
    """Return ``bound_names`` and the aliases in ``libs``. A list there names packages to install and binds nothing."""
    libs = mapping_of(task.config).get("libs")
    if bound_names is None or isinstance(libs, str):
        return None
    return bound_names | mapping_of(Value(libs)).keys()


def _check_code(text: ForeignText, task: Task, bound_names: frozenset[str] | None, report: Report) -> None:
    node, splices = text.node, tuple(splice for splice in task.splices if splice.field == text.field)
    for splice in splices:
        report.warning(Code.TEMPLATE_IN_CODE, splice.value.templates[""], _REPLACED_BY_LITERAL, _USE_INPUT)
    if lone_expression(node.text) is not None:
        if f"/{text.field}" not in task.config.templates:
            report.warning(Code.TEMPLATE_IN_CODE, node.template_span or node.span, _NOT_RENDERED, _USE_INPUT)
        return
    code = replace_with_numbers(node.text, ((splice.start, splice.end) for splice in splices))
    tree = parse_code(code)
    if isinstance(tree, PythonSyntaxError):
        _report_syntax_error(node, tree, report)
    elif tree is not None and not report.has_error_in(task.span):
        if not splices and not gives_result(tree) and "result" not in (bound_names or ()):
            report.warning(Code.NO_PYTHON_RESULT, node.span, "the code has no result", _ADD_RESULT)
        if bound_names is not None:
            _warn_of_undefined_names(node, code, tree, bound_names, report)


def _report_syntax_error(node: ScalarNode, error: PythonSyntaxError, report: Report) -> None:
    """Report a syntax error, or only the template if it causes the error. Braces in an f-string are not templates."""
    is_template = node.template_span is not None and not error.message.startswith("f-string")
    if is_template and _is_python_without_templates(node.text):
        report.warning(Code.TEMPLATE_IN_CODE, node.template_span or node.span, _NOT_RENDERED, _USE_INPUT)
        return
    span = _span_of(node, error.start, error.end, report)
    report.error(Code.PYTHON_SYNTAX, span, f"syntax error in Python code: {error.message}", error.hint)


def _is_python_without_templates(code: str) -> bool:
    if "{%" in code:
        return True  # unknown until it is rendered
    return not isinstance(parse_code(replace_with_numbers(code, expression_ranges(code))), PythonSyntaxError)


def _warn_of_undefined_names(
    node: ScalarNode, code: str, tree: ast.Module, bound_names: frozenset[str], report: Report
) -> None:
    for name in undefined_names(code, tree, bound_names):
        span = _span_of(node, name.start, name.end, report)
        hint = did_you_mean(name.name, bound_names | TOOL_NAMES, cutoff=0.75) or _DEFINE_NAME
        report.warning(Code.UNDEFINED_PYTHON_NAME, span, f'"{name.name}" is not defined in this code', hint)


def _span_of(node: ScalarNode, start: int, end: int, report: Report) -> Span:
    """Return the span of a part of the code; if it is blank, of the last character before it."""
    end_of_text = len(node.text[:end].rstrip())
    return (
        span_in_scalar(report.source, node, start, end)
        or span_in_scalar(report.source, node, end_of_text - 1, end_of_text)
        or node.span
    )
