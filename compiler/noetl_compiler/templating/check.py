"""Static analysis of a template: syntax, unknown filters and tests, nondeterminism, and the names that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.source import expression_ranges
from noetl_compiler.templating.calls import TemplateProblem, may_access_internals, name_problems
from noetl_compiler.templating.locate import explain_syntax_error, locate_syntax_error
from noetl_compiler.templating.non_boolean import NonBoolean, non_boolean
from noetl_compiler.templating.outcome_truths import NO_TRUTHS, Truths, may_depend_on_outcome, truths_of, truths_of_path
from noetl_compiler.templating.paths import collect_paths, compared_paths, lone_path, unguarded_paths
from noetl_compiler.templating.program import check_expression_limits, compile_template, parse_template
from noetl_compiler.templating.template_cache import TemplateCache
from noetl_compiler.templating.truth import lone_expression

__all__ = ["TemplateFacts", "TemplateProblem", "check", "examine", "free_paths"]

_MAX_SHALLOW_CHARS = 150


class TemplateFacts(NamedTuple):
    """The result of the static analysis of a template.

    ``reads``: the sorted dotted paths of the scope that it names. ``tested_paths``: those tested for existence.
    ``needs``: those that must be defined; empty if the template has problems. ``truths`` and ``non_boolean`` describe
    the template as a condition: its known results, and results that are not boolean. All are empty for plain text.
    """

    problems: tuple[TemplateProblem, ...] = ()
    reads: tuple[str, ...] = ()
    tested_paths: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    truths: Truths = NO_TRUTHS
    non_boolean: tuple[NonBoolean, ...] = ()


_cache: TemplateCache[TemplateFacts] = TemplateCache()


def examine(source: str) -> TemplateFacts:
    """Analyse a template; problems are in reading order."""
    facts = _cache.get(source)
    return facts if facts is not None else _cache.store(source, _examine(source))


def check(source: str) -> tuple[TemplateProblem, ...]:
    """Return the problems of a template in reading order; none for plain text."""
    return examine(source).problems


def free_paths(source: str) -> tuple[str, ...]:
    """Return the sorted dotted paths of the scope that a template reads. Raises TemplateSyntaxError."""
    facts = examine(source)
    if facts.problems and not facts.reads:
        parse_template(source)
    return facts.reads


def _examine(source: str) -> TemplateFacts:
    """Analyse a template without statements expression by expression, as many templates share expressions."""
    if (simple := _examine_simple(source)) is not None:
        return simple
    try:
        spans = expression_ranges(source)
        check_expression_limits(spans)
        if "{%" in source or "{#" in source or spans == ((0, len(source)),):
            return _examine_parsed(source)
        facts = [examine(source[begin:end]) for begin, end in spans]
        return _examine_parsed(source) if any(part.problems for part in facts) else _merge_facts(facts)
    except TemplateSyntaxError as error:
        return TemplateFacts((_syntax_problem(source, error),))
    except RecursionError:
        return TemplateFacts((TemplateProblem("the template is nested too deeply", "split it", 0, len(source)),))


def _examine_simple(source: str) -> TemplateFacts | None:
    """Return the facts of a lone path or a comparison, the most common templates; None for any other, which has to be
    parsed. A comparison with the outcome has to be parsed too, as its truths are evaluated.
    """
    if may_access_internals(source):
        return None
    if path := lone_path(source):
        return TemplateFacts((), (path,), (), (path,), truths_of_path(path))
    if len(source) <= _MAX_SHALLOW_CHARS and (paths := compared_paths(source)) and not may_depend_on_outcome(source):
        return TemplateFacts((), paths, (), paths)
    return None


def _merge_facts(facts: Sequence[TemplateFacts]) -> TemplateFacts:
    reads = tuple(sorted({path for part in facts for path in part.reads}))
    tested_paths = tuple(sorted({path for part in facts for path in part.tested_paths}))
    return TemplateFacts((), reads, tested_paths, unguarded_paths(reads, tested_paths))


def _examine_parsed(source: str) -> TemplateFacts:
    tree = parse_template(source)
    reads, tested_paths, applications = collect_paths(tree)
    problems = tuple(sorted(name_problems(source, tree, applications), key=_offsets))
    if not problems and _may_be_too_deep(source):
        compile_template(source)
    if problems:
        return TemplateFacts(problems, reads, tested_paths)
    expression = lone_expression(tree)
    return TemplateFacts(
        (),
        reads,
        tested_paths,
        unguarded_paths(reads, tested_paths),
        truths_of(source, expression),
        non_boolean(expression),
    )


def _may_be_too_deep(source: str) -> bool:
    """Whether compiling may exceed Python's nesting limit. Compiling is slow, and short expressions never do."""
    if "{%" in source or len(source) <= _MAX_SHALLOW_CHARS:
        return "{%" in source
    return any(end - start > _MAX_SHALLOW_CHARS for start, end in expression_ranges(source))


def _offsets(problem: TemplateProblem) -> tuple[int, int]:
    return problem.start, problem.end


def _syntax_problem(source: str, error: TemplateSyntaxError) -> TemplateProblem:
    return TemplateProblem(
        *explain_syntax_error(error.message or "not valid Jinja2"), *locate_syntax_error(source, error)
    )
