"""What is wrong with a template before it runs: syntax, unknown filters and tests, parts that are not deterministic."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.source import expressions
from noetl_compiler.templating.calls import Problem, problems_of_names
from noetl_compiler.templating.paths import paths_in, unguarded
from noetl_compiler.templating.program import compiled, parsed
from noetl_compiler.templating.syntax_errors import explained
from noetl_compiler.templating.words import broken_part

__all__ = ["Facts", "Problem", "check", "examine"]

_SURELY_SHALLOW = 150


class Facts(NamedTuple):
    """What is known of a template without running it. ``reads`` has the sorted dotted paths of the scope it names,
    ``needs`` those it cannot do without. Both are empty when it is no template at all, and one with other problems is
    not asked what it needs.
    """

    problems: tuple[Problem, ...] = ()
    reads: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()


@lru_cache(maxsize=1024)
def examine(source: str) -> Facts:
    """Everything about a template; problems are in reading order."""
    try:
        tree = parsed(source)
        problems = tuple(sorted(problems_of_names(source, tree), key=_place))
        if not problems and _may_be_too_deep(source):
            compiled(source)
        reads = paths_in(tree)
        return Facts(problems, reads, unguarded(reads, tree) if reads and not problems else ())
    except TemplateSyntaxError as error:
        return Facts((_syntax(source, error),))
    except RecursionError:
        return Facts((Problem("the template is nested too deeply", "split it", 0, len(source)),))


def check(source: str) -> tuple[Problem, ...]:
    """Everything wrong with a template, in reading order; nothing for a text that has no template."""
    return examine(source).problems


def _may_be_too_deep(source: str) -> bool:
    """Short expressions that parse also compile; compiling one costs many times what parsing does."""
    return "{%" in source or any(end - start > _SURELY_SHALLOW for start, end in expressions(source))


def _place(problem: Problem) -> tuple[int, int]:
    return problem.start, problem.end


def _syntax(source: str, error: TemplateSyntaxError) -> Problem:
    return Problem(*explained(error.message or "not valid Jinja2"), *broken_part(source, error))
