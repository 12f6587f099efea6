"""Compile templates, and cache the compiled ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError

from noetl_compiler.source import expression_ranges
from noetl_compiler.templating.budget import RenderBudget, current_budget
from noetl_compiler.templating.instrument import LONE_VALUE, add_charges
from noetl_compiler.templating.paths import lone_path
from noetl_compiler.templating.presence import allow_undefined
from noetl_compiler.templating.sandbox import ENVIRONMENT, ScopeContext
from noetl_compiler.templating.template_cache import TemplateCache

__all__ = [
    "PathProgram",
    "Program",
    "TemplateError",
    "TemplateSyntaxError",
    "check_expression_limits",
    "compile_template",
    "parse_template",
]

_MAX_EXPRESSIONS = 2_000
_MAX_CHARS_IN_EXPRESSIONS = 50_000
_MAX_CHARS_PER_EXPRESSION = 10_000
_MAX_UNCHECKED_CHARS = _MAX_EXPRESSIONS * len("{{}}")
"""A shorter template cannot exceed the limits."""

_FILE = "<template>"
_RESERVED_BY_JINJA = frozenset({"self", LONE_VALUE})
"""Names with a meaning in Jinja, which are never looked up in the scope."""


class Program:
    """A compiled template. ``run`` returns the native value of a lone expression, otherwise text."""

    __slots__ = ("_is_lone", "_template")

    def __init__(self, template: Template, is_lone: bool) -> None:
        self._template = template
        self._is_lone = is_lone

    def run(self, scope: Mapping[str, Any], budget: RenderBudget) -> Any:
        """Evaluate the template. Exceptions of Jinja, the sandbox and the budget propagate."""
        budget.is_passing_on = False
        context = ScopeContext(scope, budget)
        token = current_budget.set(budget)
        try:
            parts = list(self._template.root_render_func(context))
        finally:
            current_budget.reset(token)
        return context.vars[LONE_VALUE] if self._is_lone else "".join(parts)

    def line_of(self, error: BaseException) -> int:
        """Return the 1-based line of the template that raised ``error``."""
        line, frame = 1, error.__traceback__
        while frame:
            if frame.tb_frame.f_code.co_filename == _FILE:
                line = self._template.get_corresponding_lineno(frame.tb_lineno)
            frame = frame.tb_next
        return line


class PathProgram:
    """A template that is a lone path, as most are. It is evaluated without Jinja, with the same values and errors."""

    __slots__ = ("_attributes", "_name")

    def __init__(self, path: str) -> None:
        self._name, *self._attributes = path.split(".")

    def run(self, scope: Mapping[str, Any], budget: RenderBudget) -> Any:
        """Evaluate the path; see Program. The fixed cost of a rendering covers it."""
        budget.is_passing_on = True
        value: Any
        try:
            value = scope[self._name]
        except KeyError:
            value = ENVIRONMENT.undefined(name=self._name)
        for part in self._attributes:
            value = ENVIRONMENT.getattr(value, part)
        return value

    def line_of(self, error: BaseException) -> int:
        """Return 1, as paths with line breaks are compiled by Jinja."""
        del error
        return 1


_programs: TemplateCache[Program | PathProgram] = TemplateCache()


def compile_template(source: str) -> Program | PathProgram:
    """Return the cached program of a source. Raises TemplateSyntaxError."""
    program = _programs.get(source)
    return program if program is not None else _programs.store(source, _path_program(source) or _compile(source))


def _path_program(source: str) -> PathProgram | None:
    path = lone_path(source) if "\n" not in source else None
    return PathProgram(path) if path is not None and path.partition(".")[0] not in _RESERVED_BY_JINJA else None


def parse_template(source: str) -> nodes.Template:
    """Return the syntax tree before rewriting. Raises TemplateSyntaxError, also for one too large or too deep."""
    if len(source) > _MAX_UNCHECKED_CHARS:
        check_expression_limits(expression_ranges(source))
    try:
        return ENVIRONMENT.parse(source)
    except (RecursionError, ValueError, OverflowError, MemoryError) as error:
        raise TemplateSyntaxError(_reason(error), 1) from error


def check_expression_limits(ranges: Sequence[tuple[int, int]]) -> None:
    """Raise TemplateSyntaxError if a template has too many or too long expressions, at these ranges of its source."""
    lengths = [end - start for start, end in ranges]
    if len(lengths) > _MAX_EXPRESSIONS or sum(lengths) > _MAX_CHARS_IN_EXPRESSIONS:
        raise TemplateSyntaxError("the template has more expressions than a template may have", 1)
    if lengths and max(lengths) > _MAX_CHARS_PER_EXPRESSION:
        raise TemplateSyntaxError(f"an expression has more than {_MAX_CHARS_PER_EXPRESSION:,} characters", 1)


def _compile(source: str) -> Program:
    tree = parse_template(source)
    try:
        allow_undefined(tree)
        is_lone = add_charges(tree)
        code = ENVIRONMENT.compile(tree, filename=_FILE)
    except (RecursionError, SyntaxError, ValueError, OverflowError, MemoryError) as error:
        raise TemplateSyntaxError(_reason(error), 1) from error
    return Program(Template.from_code(ENVIRONMENT, code, {}), is_lone)


def _reason(error: Exception) -> str:
    """Return one message for the various errors that too deep nesting raises in the parsers."""
    if isinstance(error, ValueError | OverflowError) and "digits" in str(error):
        return "a number is too long"
    return "the template is nested too deeply"
