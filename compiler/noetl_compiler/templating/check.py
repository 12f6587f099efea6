"""Static checks of a template: syntax, unknown filters and tests, parts that are not deterministic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.source import expressions
from noetl_compiler.templating.calls import TemplateProblem, may_see_inner, problems_of_names
from noetl_compiler.templating.locate import broken_part, explained
from noetl_compiler.templating.non_boolean import NonBoolean, non_boolean
from noetl_compiler.templating.outcome_facts import NO_TRUTHS, Truths, may_tell_outcome, truths_of, truths_of_path
from noetl_compiler.templating.paths import compared_paths, lone_path, survey, unguarded
from noetl_compiler.templating.program import compiled, forbid_excess, parsed
from noetl_compiler.templating.template_cache import TemplateCache
from noetl_compiler.templating.truth import lone_expression

__all__ = ["TemplateFacts", "TemplateProblem", "check", "examine", "free_paths"]

_SURELY_SHALLOW = 150


class TemplateFacts(NamedTuple):
    """The result of the static analysis of a template.

    ``reads``: the sorted dotted paths of the scope that it names. ``asked``: those that it only tests. ``needs``: those
    that must be defined; empty if the template has problems. ``truths`` and ``non_boolean``: as a condition, its known
    results, and results that are not boolean. All are empty for plain text.
    """

    problems: tuple[TemplateProblem, ...] = ()
    reads: tuple[str, ...] = ()
    asked: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    truths: Truths = NO_TRUTHS
    non_boolean: tuple[NonBoolean, ...] = ()


_known: TemplateCache[TemplateFacts] = TemplateCache()


def examine(source: str) -> TemplateFacts:
    """Analyse a template; problems are in reading order."""
    known = _known.get(source)
    return known if known is not None else _known.keep(source, _examine(source))


def check(source: str) -> tuple[TemplateProblem, ...]:
    """Return the problems of a template in reading order; none for plain text."""
    return examine(source).problems


def free_paths(source: str) -> tuple[str, ...]:
    """Return the sorted dotted paths of the scope that a template reads. Raises TemplateSyntaxError."""
    facts = examine(source)
    if facts.problems and not facts.reads:
        parsed(source)
    return facts.reads


def _examine(source: str) -> TemplateFacts:
    """Analyse a template without statements expression by expression, as many templates share expressions."""
    if (simple := _without_parser(source)) is not None:
        return simple
    try:
        places = expressions(source)
        forbid_excess(places)
        if "{%" in source or "{#" in source or places == ((0, len(source)),):
            return _examine_parsed(source)
        facts = [examine(source[begin:end]) for begin, end in places]
        return _examine_parsed(source) if any(one.problems for one in facts) else _merged(facts)
    except TemplateSyntaxError as error:
        return TemplateFacts((_syntax(source, error),))
    except RecursionError:
        return TemplateFacts((TemplateProblem("the template is nested too deeply", "split it", 0, len(source)),))


def _without_parser(source: str) -> TemplateFacts | None:
    """Return the facts of a path or a comparison, which most templates are; None if it takes a parser. Those about the
    outcome take one, as their truths are evaluated.
    """
    if may_see_inner(source):
        return None
    if path := lone_path(source):
        return TemplateFacts((), (path,), (), (path,), truths_of_path(path))
    if len(source) <= _SURELY_SHALLOW and (paths := compared_paths(source)) and not may_tell_outcome(source):
        return TemplateFacts((), paths, (), paths)
    return None


def _merged(facts: Sequence[TemplateFacts]) -> TemplateFacts:
    reads = tuple(sorted({path for one in facts for path in one.reads}))
    asked = tuple(sorted({path for one in facts for path in one.asked}))
    return TemplateFacts((), reads, asked, unguarded(reads, asked))


def _examine_parsed(source: str) -> TemplateFacts:
    tree = parsed(source)
    reads, asked, applied = survey(tree)
    problems = tuple(sorted(problems_of_names(source, tree, applied), key=_place))
    if not problems and _may_be_too_deep(source):
        compiled(source)
    if problems:
        return TemplateFacts(problems, reads, asked)
    only = lone_expression(tree)
    return TemplateFacts((), reads, asked, unguarded(reads, asked), truths_of(source, only), non_boolean(only))


def _may_be_too_deep(source: str) -> bool:
    """Whether compiling may exceed Python's nesting limit. Compiling is slow, and short expressions never do."""
    if "{%" in source or len(source) <= _SURELY_SHALLOW:
        return "{%" in source
    return any(end - start > _SURELY_SHALLOW for start, end in expressions(source))


def _place(problem: TemplateProblem) -> tuple[int, int]:
    return problem.start, problem.end


def _syntax(source: str, error: TemplateSyntaxError) -> TemplateProblem:
    return TemplateProblem(*explained(error.message or "not valid Jinja2"), *broken_part(source, error))
