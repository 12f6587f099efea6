"""A template compiled once, and the process-wide store of them.

The store is a plain dict with no order of use: what playbooks need fits, and when a process has seen more
than ``_MAX_STORED`` characters of templates it starts anew, which costs one compilation each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateError, TemplateSyntaxError

from noetl_compiler.source import expressions
from noetl_compiler.templating.meter import Meter
from noetl_compiler.templating.metering import LONE, prepare
from noetl_compiler.templating.sandbox import ENVIRONMENT, ScopeContext

__all__ = ["Program", "TemplateError", "TemplateSyntaxError", "compiled", "parsed"]

_MAX_EXPRESSIONS = 2_000
_MAX_EXPRESSION_CHARS = 50_000
_MAX_STORED = 20_000_000
_FILE = "<template>"


class Program:
    """A compiled template. ``run`` gives the native value of a lone expression, otherwise text."""

    __slots__ = ("_is_lone", "_template")

    def __init__(self, template: Template, is_lone: bool) -> None:
        self._template = template
        self._is_lone = is_lone

    def run(self, scope: Mapping[str, Any], meter: Meter) -> Any:
        """Evaluate; whatever Jinja, the sandbox or the meter raises goes to the caller."""
        context = ScopeContext(scope, meter)
        parts = list(self._template.root_render_func(context))
        return context.vars[LONE] if self._is_lone else "".join(parts)

    def line_of(self, error: BaseException) -> int:
        """The 1-based line of the template that raised ``error``."""
        line, frame = 1, error.__traceback__
        while frame:
            if frame.tb_frame.f_code.co_filename == _FILE:
                line = self._template.get_corresponding_lineno(frame.tb_lineno)
            frame = frame.tb_next
        return line


_programs: dict[str, Program] = {}
_stored = 0


def compiled(source: str) -> Program:
    """The program of a source; TemplateSyntaxError when there is none."""
    program = _programs.get(source)
    return program if program is not None else _store(source, _compile(source))


def _store(source: str, program: Program) -> Program:
    global _stored
    if _stored > _MAX_STORED:
        _programs.clear()
        _stored = 0
    _stored += len(source) + 1000
    _programs[source] = program
    return program


def parsed(source: str) -> nodes.Template:
    """The syntax tree, not rewritten; TemplateSyntaxError also for one too large or too deep."""
    places = expressions(source)
    too_many = len(places) > _MAX_EXPRESSIONS
    if too_many or sum(end - start for start, end in places) > _MAX_EXPRESSION_CHARS:
        raise TemplateSyntaxError("the template has more expressions than a template may have", 1)
    try:
        return ENVIRONMENT.parse(source)
    except (RecursionError, ValueError, OverflowError, MemoryError) as error:
        raise TemplateSyntaxError(_why(error), 1) from error


def _compile(source: str) -> Program:
    tree = parsed(source)
    try:
        is_lone = prepare(tree)
        code = ENVIRONMENT.compile(tree, filename=_FILE)
    except (RecursionError, SyntaxError, ValueError, OverflowError, MemoryError) as error:
        raise TemplateSyntaxError(_why(error), 1) from error
    return Program(Template.from_code(ENVIRONMENT, code, {}), is_lone)


def _why(error: Exception) -> str:
    """Python's parser and ours give up on depth in many ways; a person needs one."""
    if isinstance(error, ValueError | OverflowError) and "digits" in str(error):
        return "a number is too long"
    return "the template is nested too deeply"
