"""Render templates at run time, and analyse them before a run.

A string that is a lone expression yields the native value of the expression; a string with text around it, or with
statements, yields text. Rendered data is never rendered again. Each source is compiled once per process
(templating/program.py) for an environment that is deterministic and charges all work to a budget
(templating/sandbox.py, instrument.py, budget.py). So rendering is a pure function of source and scope: the workflow,
the activity and any later replay get the same value or the same failure.

A scope is any mapping of names. Its values are JSON or views: mappings whose ``materialise()`` returns the JSON that
they represent (templating/materialise.py). The result of a rendering is always JSON.

An undefined name in a value is a failure with its span. An undefined name in a predicate means "no match", and the
result reports the name. Any other error in a predicate (``none > 1``, ``1 / 0``) is a failure, as in a value: a mistake
never counts as "no match" (semantics.md 34).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from jinja2.exceptions import SecurityError, TemplateSyntaxError

from noetl_compiler.diagnostics import template_name_hint
from noetl_compiler.graph import Json, Span, Value
from noetl_compiler.graph.contents import tokens_of, value_at
from noetl_compiler.language.quantities import FALSE_WORDS
from noetl_compiler.templating import paths as template_paths
from noetl_compiler.templating.analysis import TemplateProblem, analyse_template, template_problems
from noetl_compiler.templating.budget import BudgetExceededError, NotDataError, RenderBudget
from noetl_compiler.templating.clock import Clock
from noetl_compiler.templating.materialise import materialise
from noetl_compiler.templating.program import PathProgram, Program, compile_template, parse_template
from noetl_compiler.templating.secret import Secret, SecretUseError
from noetl_compiler.templating.undefined import Absent, AbsentPartError, UndefinedNameError
from noetl_compiler.templating.work import add_work_of, work_done

__all__ = [
    "Absent",
    "Clock",
    "PredicateResult",
    "Secret",
    "TemplateFailure",
    "TemplateProblem",
    "predicate",
    "project",
    "read_paths",
    "render",
    "render_text",
    "template_problems",
    "undefined_name_hint",
    "why_undefined",
    "work_done",
]


class TemplateFailure(Exception):  # noqa: N818 - the failure of a playbook, not of this program
    """A template cannot be rendered. ``name`` is the undefined path, if that is the reason."""

    def __init__(self, message: str, span: Span | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.name = name


class PredicateResult(NamedTuple):
    """The result of a predicate. ``indeterminate`` has the undefined name that it used, if any; then it does not match.

    ``is_mistake``: no outcome defines that name. False for a part that only some outcomes have
    (templating/undefined.py).
    """

    matched: bool
    indeterminate: tuple[str, ...] = ()
    is_mistake: bool = False


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_FALSE = FALSE_WORDS | {"", "none", "null"}


def render(value: Value, scope: Mapping[str, Any]) -> Json:
    """Return the value with all its templates rendered. Raises TemplateFailure.

    Parts without templates are shared with ``value``, so the result must not be changed in place.
    """
    if not value.templates:
        return value.data
    budget = RenderBudget()
    rendered_parts: dict[str, Json] = {}
    try:
        for pointer in sorted(value.templates):
            source = value_at(value.data, pointer)
            rendered_parts[pointer] = _evaluate(source, scope, budget, value.templates[pointer])
    finally:
        add_work_of(budget)
    return _with_rendered(value.data, rendered_parts)


def render_text(source: str, scope: Mapping[str, Any]) -> Json:
    """Return the value of one template: native for a lone expression, otherwise text. Raises TemplateFailure."""
    budget = RenderBudget()
    try:
        return _evaluate(source, scope, budget, None)
    finally:
        add_work_of(budget)


def predicate(source: str, scope: Mapping[str, Any], span: Span | None = None) -> PredicateResult:
    """Return whether the value of the template is true. A string is false if it is empty, ``false``, ``0``, ``no``,
    ``none`` or ``null``; other values have the truth of Python. The use of an undefined name is no match; any other
    error raises TemplateFailure, with ``span``.
    """
    program = _compile(source, span)
    budget = RenderBudget()
    try:
        budget.charge_start(source)
        value = program.run(scope, budget)
        return PredicateResult(value.strip().lower() not in _FALSE if isinstance(value, str) else bool(value))
    except UndefinedNameError as error:
        budget.charge_missing_name()
        path, _ = _missing_path(source, scope, error.name)
        return PredicateResult(False, (path,), is_mistake=not isinstance(error, AbsentPartError))
    except Exception as error:
        raise _failure(source, scope, error, span, program) from error
    finally:
        add_work_of(budget)


def undefined_name_hint(source: str, scope: Mapping[str, Any], path: str) -> str:
    """Return ``did you mean "count"?`` for the undefined path ``start.cuont`` of this template, or why the scope does
    not define it, or ``""``.
    """
    return why_undefined(scope, path.split(".")) or _hint(*_missing_path(source, scope, path.rpartition(".")[2]))


def why_undefined(names: Any, path: Sequence[str]) -> str:
    """Return the reason that the mapping's own method of this name gives for an undefined path, ``""`` without one."""
    explain: Callable[[Sequence[str]], str] | None = getattr(names, "why_undefined", None)
    return explain(path) if explain is not None and path else ""


def read_paths(source: str) -> tuple[str, ...]:
    """Return the sorted dotted paths of the scope that a template reads (``workload.api_url``). Raises TemplateFailure
    for a syntax error.
    """
    analysis = analyse_template(source)
    if analysis.problems and not analysis.read_paths:
        try:
            parse_template(source)
        except TemplateSyntaxError as error:
            raise TemplateFailure(_syntax_message(error)) from error
    return analysis.read_paths


def project(scope: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Json]:
    """Return the smallest nested dict of JSON with the values of the scope at these paths; undefined paths are left
    out. Raises TemplateFailure if it exceeds the budget or is not data.
    """
    budget = RenderBudget()
    try:
        return template_paths.project(scope, paths, budget)
    except NotDataError as error:
        raise TemplateFailure(str(error)) from error
    finally:
        add_work_of(budget)


def _evaluate(source: str, scope: Mapping[str, Any], budget: RenderBudget, span: Span | None) -> Json:
    if "{" not in source:
        return source
    program = _compile(source, span)
    try:
        budget.charge_start(source)
        return materialise(program.run(scope, budget), budget)
    except Exception as error:
        raise _failure(source, scope, error, span, program) from error


def _compile(source: str, span: Span | None) -> Program | PathProgram:
    try:
        return compile_template(source)
    except TemplateSyntaxError as error:
        raise TemplateFailure(_syntax_message(error), span) from error


def _syntax_message(error: TemplateSyntaxError) -> str:
    return f"not a valid template: {error.message}"


def _failure(
    source: str, scope: Mapping[str, Any], error: Exception, span: Span | None, program: Program | PathProgram
) -> TemplateFailure:
    """Return the failure with a message for the author of the template."""
    location = f" (line {program.line_of(error)} of the text)" if "\n" in source.strip() else ""
    if isinstance(error, UndefinedNameError):
        path, names = _missing_path(source, scope, error.name)
        hint = why_undefined(scope, path.split(".")) or _hint(path, names)
        return TemplateFailure(f'"{path}" is undefined{f": {hint}" if hint else ""}{location}', span, path)
    if isinstance(error, TemplateFailure):  # raised by a view of the scope
        return TemplateFailure(f"{error.message}{location}", span)
    if isinstance(error, BudgetExceededError | NotDataError | SecretUseError | SecurityError):
        return TemplateFailure(f"{error}{location}", span)
    if isinstance(error, RecursionError):
        return TemplateFailure(f"the template recurses too deeply{location}", span)
    return TemplateFailure(f"the template fails: {type(error).__name__}: {error}{location}", span)


def _hint(path: str, names: Mapping[str, Any]) -> str:
    """Return the hint for an undefined path; ``names`` are those defined in the mapping that lacks its last part."""
    container, _, name = path.rpartition(".")
    return template_name_hint(name, names, container or "results")


def _missing_path(source: str, scope: Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    """Return the undefined path that ends with ``name``, and the mapping in which it was not found."""
    for path in analyse_template(source).read_paths:
        parts = path.split(".")
        count, container = template_paths.follow_path(scope, parts)
        if count < len(parts) and parts[count] == name:
            prefix = ".".join(parts[: count + 1])
            return prefix, cast("Mapping[str, Any]", container) if isinstance(container, Mapping) else _NOTHING
        if isinstance(container, Absent) and parts[-1] == name:
            return path, _NOTHING
    return name, _NOTHING


def _with_rendered(data: Json, rendered_parts: dict[str, Json]) -> Json:
    """Return ``data`` with the rendered values at their pointers. Only the containers above them are copied."""
    if "" in rendered_parts:
        return rendered_parts[""]
    copies: dict[tuple[str, ...], Json] = {(): data.copy()}
    for pointer, value in rendered_parts.items():
        *parents, token = tokens_of(pointer)
        container = _copy_at(tuple(parents), copies)
        container[_key_in(container, token)] = value
    return copies[()]


def _copy_at(tokens: tuple[str, ...], copies: dict[tuple[str, ...], Json]) -> Json:
    """Return a copy of the container at the tokens of a pointer, made once."""
    if tokens not in copies:
        container = _copy_at(tokens[:-1], copies)
        key = _key_in(container, tokens[-1])
        copies[tokens] = container[key] = container[key].copy()
    return copies[tokens]


def _key_in(container: Json, token: str) -> int | str:
    return int(token) if isinstance(container, list) else token
