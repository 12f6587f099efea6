"""Compiled templates, cached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError

from noetl_compiler.source import expressions
from noetl_compiler.templating.budget import RenderBudget, current_budget
from noetl_compiler.templating.instrument import LONE, prepare
from noetl_compiler.templating.paths import lone_path
from noetl_compiler.templating.presence import allow_undefined
from noetl_compiler.templating.sandbox import ENVIRONMENT, ScopeContext
from noetl_compiler.templating.template_cache import TemplateCache

__all__ = ["PathProgram", "Program", "TemplateError", "TemplateSyntaxError", "compiled", "forbid_excess", "parsed"]

_MAX_EXPRESSIONS = 2_000
_MAX_EXPRESSION_CHARS = 50_000
_LONGEST_EXPRESSION = 10_000
_SURELY_FEW = _MAX_EXPRESSIONS * len("{{}}")
_FILE = "<template>"
_JINJAS_OWN = frozenset({"self", LONE})
"""Names with a meaning in Jinja, which are never looked up in the scope."""


class Program:
    """A compiled template. ``run`` returns the native value of a lone expression, otherwise text."""

    __slots__ = ("_is_lone", "_template")

    def __init__(self, template: Template, is_lone: bool) -> None:
        self._template = template
        self._is_lone = is_lone

    def run(self, scope: Mapping[str, Any], meter: RenderBudget) -> Any:
        """Evaluate the template. Exceptions of Jinja, the sandbox and the meter propagate."""
        meter.is_passing_on = False
        context = ScopeContext(scope, meter)
        outer = current_budget.set(meter)
        try:
            parts = list(self._template.root_render_func(context))
        finally:
            current_budget.reset(outer)
        return context.vars[LONE] if self._is_lone else "".join(parts)

    def line_of(self, error: BaseException) -> int:
        """Return the 1-based line of the template that raised ``error``."""
        line, frame = 1, error.__traceback__
        while frame:
            if frame.tb_frame.f_code.co_filename == _FILE:
                line = self._template.get_corresponding_lineno(frame.tb_lineno)
            frame = frame.tb_next
        return line


class PathProgram:
    """A template that is just a path, as most are: looked up without Jinja, with the same values and errors."""

    __slots__ = ("_name", "_rest")

    def __init__(self, path: str) -> None:
        self._name, *self._rest = path.split(".")

    def run(self, scope: Mapping[str, Any], meter: RenderBudget) -> Any:
        """Evaluate the path; see Program. The fixed cost of a rendering covers it."""
        meter.is_passing_on = True
        value: Any
        try:
            value = scope[self._name]
        except KeyError:
            value = ENVIRONMENT.undefined(name=self._name)
        for part in self._rest:
            value = ENVIRONMENT.getattr(value, part)
        return value

    def line_of(self, error: BaseException) -> int:
        """Return 1, as paths with line breaks are compiled by Jinja."""
        del error
        return 1


_programs: TemplateCache[Program | PathProgram] = TemplateCache()


def compiled(source: str) -> Program | PathProgram:
    """Return the cached program of a source. Raises TemplateSyntaxError."""
    program = _programs.get(source)
    return program if program is not None else _programs.keep(source, _path_program(source) or _compile(source))


def _path_program(source: str) -> PathProgram | None:
    path = lone_path(source) if "\n" not in source else None
    return PathProgram(path) if path is not None and path.partition(".")[0] not in _JINJAS_OWN else None


def parsed(source: str) -> nodes.Template:
    """Return the syntax tree before rewriting. Raises TemplateSyntaxError, also for one too large or too deep."""
    if len(source) > _SURELY_FEW:
        forbid_excess(expressions(source))
    try:
        return ENVIRONMENT.parse(source)
    except (RecursionError, ValueError, OverflowError, MemoryError) as error:
        raise TemplateSyntaxError(_why(error), 1) from error


def forbid_excess(places: Sequence[tuple[int, int]]) -> None:
    """Raise TemplateSyntaxError if a template has too many or too long expressions."""
    lengths = [end - start for start, end in places]
    if len(lengths) > _MAX_EXPRESSIONS or sum(lengths) > _MAX_EXPRESSION_CHARS:
        raise TemplateSyntaxError("the template has more expressions than a template may have", 1)
    if lengths and max(lengths) > _LONGEST_EXPRESSION:
        raise TemplateSyntaxError(f"an expression has more than {_LONGEST_EXPRESSION:,} characters", 1)


def _compile(source: str) -> Program:
    tree = parsed(source)
    try:
        allow_undefined(tree)
        is_lone = prepare(tree)
        code = ENVIRONMENT.compile(tree, filename=_FILE)
    except (RecursionError, SyntaxError, ValueError, OverflowError, MemoryError) as error:
        raise TemplateSyntaxError(_why(error), 1) from error
    return Program(Template.from_code(ENVIRONMENT, code, {}), is_lone)


def _why(error: Exception) -> str:
    """Return one message for the various errors that too deep nesting raises in the parsers."""
    if isinstance(error, ValueError | OverflowError) and "digits" in str(error):
        return "a number is too long"
    return "the template is nested too deeply"
