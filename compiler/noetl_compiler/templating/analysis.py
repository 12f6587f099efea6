"""Static analysis of a template: syntax, unknown filters and tests, nondeterminism, and the names that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.source import expression_ranges
from noetl_compiler.templating.calls import TemplateProblem, may_access_internals, name_problems
from noetl_compiler.templating.locate import explain_syntax_error, locate_syntax_error
from noetl_compiler.templating.lone_expression import lone_expression_node
from noetl_compiler.templating.non_boolean import NonBoolean, non_boolean_values
from noetl_compiler.templating.outcome_truths import NO_TRUTHS, Truths, may_depend_on_outcome, truths_of, truths_of_path
from noetl_compiler.templating.paths import collect_paths, compared_paths, lone_path, unguarded_paths
from noetl_compiler.templating.program import check_expression_limits, compile_template, parse_template
from noetl_compiler.templating.template_cache import TemplateCache

__all__ = ["TemplateAnalysis", "TemplateProblem", "analyse_template", "template_problems"]

_MAX_SHALLOW_CHARS = 150


class TemplateAnalysis(NamedTuple):
    """The result of the static analysis of a template.

    ``read_paths``: the sorted dotted paths of the scope that it reads. ``tested_paths``: those that it tests for
    existence. ``required_paths``: those that must be defined; empty if the template has problems. ``truths`` and
    ``non_boolean`` describe the template as a condition: its known results, and results that are not boolean. All are
    empty for plain text.
    """

    problems: tuple[TemplateProblem, ...] = ()
    read_paths: tuple[str, ...] = ()
    tested_paths: tuple[str, ...] = ()
    required_paths: tuple[str, ...] = ()
    truths: Truths = NO_TRUTHS
    non_boolean: tuple[NonBoolean, ...] = ()

    @property
    def root_names(self) -> frozenset[str]:
        """The first names of the paths that the template reads: ``workload`` of ``workload.api_url``."""
        return frozenset(path.partition(".")[0] for path in self.read_paths)


_cache: TemplateCache[TemplateAnalysis] = TemplateCache()


def analyse_template(source: str) -> TemplateAnalysis:
    """Analyse a template; problems are in reading order."""
    analysis = _cache.get(source)
    return analysis if analysis is not None else _cache.store(source, _analyse(source))


def template_problems(source: str) -> tuple[TemplateProblem, ...]:
    """Return the problems of a template in reading order; none for plain text."""
    return analyse_template(source).problems


def _analyse(source: str) -> TemplateAnalysis:
    """Analyse a template without statements expression by expression, as many templates share expressions."""
    if (simple := _analyse_simple(source)) is not None:
        return simple
    try:
        ranges = expression_ranges(source)
        check_expression_limits(ranges)
        if "{%" in source or "{#" in source or ranges == ((0, len(source)),):
            return _analyse_parsed(source)
        analyses = [analyse_template(source[begin:end]) for begin, end in ranges]
        if any(analysis.problems for analysis in analyses):
            return _analyse_parsed(source)
        return _merge_analyses(analyses)
    except TemplateSyntaxError as error:
        return TemplateAnalysis((_syntax_problem(source, error),))
    except RecursionError:
        return TemplateAnalysis((TemplateProblem("the template is nested too deeply", "split it", 0, len(source)),))


def _analyse_simple(source: str) -> TemplateAnalysis | None:
    """Analyse a lone path or a comparison, the most common templates; None for any other, which has to be parsed. A
    comparison with the outcome has to be parsed too, as its truths are evaluated.
    """
    if may_access_internals(source):
        return None
    if path := lone_path(source):
        return TemplateAnalysis((), (path,), (), (path,), truths_of_path(path))
    if len(source) <= _MAX_SHALLOW_CHARS and (paths := compared_paths(source)) and not may_depend_on_outcome(source):
        return TemplateAnalysis((), paths, (), paths)
    return None


def _merge_analyses(analyses: Sequence[TemplateAnalysis]) -> TemplateAnalysis:
    paths = tuple(sorted({path for analysis in analyses for path in analysis.read_paths}))
    tested_paths = tuple(sorted({path for analysis in analyses for path in analysis.tested_paths}))
    return TemplateAnalysis((), paths, tested_paths, unguarded_paths(paths, tested_paths))


def _analyse_parsed(source: str) -> TemplateAnalysis:
    tree = parse_template(source)
    paths, tested_paths, applications = collect_paths(tree)
    problems = tuple(sorted(name_problems(source, tree, applications), key=_offsets))
    if not problems and _may_be_too_deep(source):
        compile_template(source)
    if problems:
        return TemplateAnalysis(problems, paths, tested_paths)
    expression = lone_expression_node(tree)
    return TemplateAnalysis(
        (),
        paths,
        tested_paths,
        unguarded_paths(paths, tested_paths),
        truths_of(source, expression),
        non_boolean_values(expression),
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
