"""Templates: their values at run time, and what can be derived before a run.

How it works. A string that is nothing but one expression gives the expression's native value; a string with
text around it, or with statements, gives text. Rendered data is never rendered again. Each source is compiled
once per process (templating/program.py) for an environment that knows only deterministic things and charges all
work to a budget (templating/sandbox.py, instrument.py, budget.py), so rendering is a pure function of source and
scope: the workflow, the activity and a replay years later get the same value or the same failure.

A scope is any mapping of names. Its values are JSON, or views: mappings with ``materialise()``, which returns
the JSON they stand for when they are passed on whole (templating/materialise.py). Nothing else leaves a rendering.

Undefined in a value is a failure that cites the place. Undefined in a predicate is "no match", and the
verdict says which name it was. Whatever else goes wrong in a predicate (``none > 1``, ``1 / 0``) is a failure as
in a value: a mistake never reads as "no match" (semantics.md 34).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from jinja2.exceptions import SecurityError, TemplateSyntaxError

from noetl_compiler.diagnostics import nearest_name
from noetl_compiler.graph import Json, Span, Value
from noetl_compiler.graph.contents import at, key_in
from noetl_compiler.language.quantities import FALSE_WORDS
from noetl_compiler.templating import paths as template_paths
from noetl_compiler.templating.budget import BudgetExceededError, NotDataError, RenderBudget
from noetl_compiler.templating.check import TemplateProblem, check, free_paths
from noetl_compiler.templating.clock import Clock
from noetl_compiler.templating.materialise import materialise
from noetl_compiler.templating.program import PathProgram, Program, compiled
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
    "check",
    "hint_for",
    "paths",
    "predicate",
    "project",
    "render",
    "render_text",
    "work_done",
]


class TemplateFailure(Exception):  # noqa: N818 - the failure of a playbook, not of this program
    """A template has no value. ``name`` is the undefined path, when it is that."""

    def __init__(self, message: str, span: Span | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.name = name


class PredicateResult(NamedTuple):
    """A predicate's answer. ``indeterminate`` has the undefined name that it used; then it did not match.

    ``is_mistake`` unless that name is one that is there in some outcomes only (absent.py).
    """

    matched: bool
    indeterminate: tuple[str, ...] = ()
    is_mistake: bool = False


_NOTHING: Mapping[str, Any] = MappingProxyType({})
_FALSE = FALSE_WORDS | {"", "none", "null"}


def render(value: Value, scope: Mapping[str, Any]) -> Json:
    """Return the value with every template in it replaced by what it gives; TemplateFailure at the first that has
    none.

    Parts without templates are those of ``value``: the result is not to be changed in place.
    """
    if not value.templates:
        return value.data
    meter = RenderBudget()
    rendered: dict[str, Json] = {}
    try:
        for pointer in sorted(value.templates):
            source = at(value.data, pointer)
            rendered[pointer] = _evaluate(source, scope, meter, value.templates[pointer])
    finally:
        add_work_of(meter)
    return _replaced(value.data, rendered)


def render_text(source: str, scope: Mapping[str, Any]) -> Json:
    """One template's value: native for a lone expression, otherwise text. Raises TemplateFailure."""
    meter = RenderBudget()
    try:
        return _evaluate(source, scope, meter, None)
    finally:
        add_work_of(meter)


def predicate(source: str, scope: Mapping[str, Any], span: Span | None = None) -> PredicateResult:
    """Whether the template's value is true. A text is false when it is empty, ``false``, ``0``, ``no``,
    ``none`` or ``null``; other values go by their truth. TemplateFailure, at ``span``, for all that goes wrong
    but the use of an undefined name, which is no match.
    """
    program = _compiled(source, span)
    meter = RenderBudget()
    try:
        meter.begin(source)
        value = program.run(scope, meter)
        return PredicateResult(value.strip().lower() not in _FALSE if isinstance(value, str) else bool(value))
    except UndefinedNameError as error:
        meter.missing_name()
        path, _ = _missing_path(source, scope, error.name)
        return PredicateResult(False, (path,), is_mistake=not isinstance(error, AbsentPartError))
    except Exception as error:
        raise _failure(source, scope, error, span, program) from error
    finally:
        add_work_of(meter)


def hint_for(source: str, scope: Mapping[str, Any], path: str) -> str:
    """``did you mean "count"?`` for the undefined path ``start.cuont`` of this template, or ``""``."""
    return _hint(*_missing_path(source, scope, path.rpartition(".")[2]))


def paths(source: str) -> tuple[str, ...]:
    """Return the sorted dotted paths of the scope a template names (``workload.api_url``); TemplateFailure for bad
    syntax.
    """
    try:
        return free_paths(source)
    except TemplateSyntaxError as error:
        raise TemplateFailure(_syntax_message(error)) from error


def project(scope: Mapping[str, Any], paths: Sequence[str]) -> dict[str, Json]:
    """Return the smallest nested dict of plain JSON that has the scope's values at these paths; what is missing is
    left out. TemplateFailure when it is more than a template may give, or no data.
    """
    meter = RenderBudget()
    try:
        return template_paths.project(scope, paths, meter)
    except NotDataError as error:
        raise TemplateFailure(str(error)) from error
    finally:
        add_work_of(meter)


def _evaluate(source: str, scope: Mapping[str, Any], meter: RenderBudget, span: Span | None) -> Json:
    if "{" not in source:
        return source
    program = _compiled(source, span)
    try:
        meter.begin(source)
        return materialise(program.run(scope, meter), meter)
    except Exception as error:
        raise _failure(source, scope, error, span, program) from error


def _compiled(source: str, span: Span | None) -> Program | PathProgram:
    try:
        return compiled(source)
    except TemplateSyntaxError as error:
        raise TemplateFailure(_syntax_message(error), span) from error


def _syntax_message(error: TemplateSyntaxError) -> str:
    return f"not a valid template: {error.message}"


def _failure(
    source: str, scope: Mapping[str, Any], error: Exception, span: Span | None, program: Program | PathProgram
) -> TemplateFailure:
    """Return the failure with a message for the author of the template."""
    where = f" (line {program.line_of(error)} of the text)" if "\n" in source.strip() else ""
    if isinstance(error, UndefinedNameError):
        path, names = _missing_path(source, scope, error.name)
        hint = _hint(path, names)
        return TemplateFailure(f'"{path}" is undefined{f": {hint}" if hint else ""}{where}', span, path)
    if isinstance(error, TemplateFailure):  # of a value that the scope cannot give
        return TemplateFailure(f"{error.message}{where}", span)
    if isinstance(error, BudgetExceededError | NotDataError | SecretUseError | SecurityError):
        return TemplateFailure(f"{error}{where}", span)
    if isinstance(error, RecursionError):
        return TemplateFailure(f"the template recurses too deeply{where}", span)
    return TemplateFailure(f"the template fails: {type(error).__name__}: {error}{where}", span)


def _hint(path: str, names: Mapping[str, Any]) -> str:
    """Return the hint for an undefined path; ``names`` are defined in the place of its last name."""
    within, _, name = path.rpartition(".")
    return nearest_name(name, names, within)


def _missing_path(source: str, scope: Mapping[str, Any], name: str) -> tuple[str, Mapping[str, Any]]:
    """Return the undefined path that ends at ``name``, and its replacement."""
    for path in free_paths(source):
        parts = path.split(".")
        known, container = template_paths.follow(scope, parts)
        if known < len(parts) and parts[known] == name:
            here = ".".join(parts[: known + 1])
            return here, cast("Mapping[str, Any]", container) if isinstance(container, Mapping) else _NOTHING
        if isinstance(container, Absent) and parts[-1] == name:
            return path, _NOTHING
    return name, _NOTHING


def _replaced(data: Json, rendered: dict[str, Json]) -> Json:
    """Return a copy of ``data`` along the pointers, with the rendered values there; the rest is shared."""
    if "" in rendered:
        return rendered[""]
    owned: dict[str, Json] = {"": data.copy()}
    for pointer, value in rendered.items():
        parent, _, token = pointer.rpartition("/")
        container = _owned(parent, owned)
        container[key_in(container, token)] = value
    return owned[""]


def _owned(pointer: str, owned: dict[str, Json]) -> Json:
    """Return the container at a pointer as our own copy."""
    if pointer not in owned:
        parent, _, token = pointer.rpartition("/")
        container = _owned(parent, owned)
        key = key_in(container, token)
        owned[pointer] = container[key] = container[key].copy()
    return owned[pointer]
