"""What is wrong with a template before it runs: syntax, unknown filters and tests, parts that are not
deterministic.

Jinja tells the line only. The column comes from the expression that stands there, found anew in the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.diagnostics import nearest
from noetl_compiler.filters import FILTERS, TESTS
from noetl_compiler.source import expressions
from noetl_compiler.template_program import compiled, parsed

__all__ = ["Problem", "check"]

_CHANCE = frozenset({"choice", "lipsum", "randint", "random", "shuffle", "uuid", "uuid1", "uuid4"})
_CLOCK = frozenset({"today", "utcnow"})
_CHANCE_HINT = "take it from the request, from execution_id, or make it in a python task"
_CLOCK_HINT = "use now(), which a replay sees unchanged, or make it in a python task"


class Problem(NamedTuple):
    """A finding. ``line`` and ``col`` are 1-based in the template; ``expression`` is the index of the
    expression it is in (source.expressions), None outside of all. ``forbidden`` tells what is unsafe or not
    deterministic from bad syntax.
    """

    message: str
    hint: str
    line: int
    col: int
    expression: int | None
    forbidden: bool = False


@lru_cache(maxsize=1024)
def check(source: str) -> tuple[Problem, ...]:
    """Everything wrong with a template, in reading order; nothing for a text that has no template."""
    try:
        tree = parsed(source)
        problems = tuple(sorted(_names(source, tree), key=_place))
        if not problems:
            compiled(source)
    except TemplateSyntaxError as error:
        return (_syntax(source, error),)
    except RecursionError:
        return (_problem(source, 0, "the template is nested too deeply", "split it"),)
    return problems


def _place(problem: Problem) -> tuple[int, int]:
    return problem.line, problem.col


def _syntax(source: str, error: TemplateSyntaxError) -> Problem:
    return _problem(source, _offset_of_error(source, error.lineno), error.message or "not valid Jinja2", "")


def _offset_of_error(source: str, line: int) -> int:
    """The first expression on the line that does not parse alone, else the first there."""
    start = _line_start(source, line)
    places = [place for place in expressions(source) if place[1] >= start]
    for begin, end in places[:50]:
        if source.startswith("{{", begin) and not _parses(source[begin:end]):
            return begin
    return max(start, places[0][0]) if places else start


def _parses(expression: str) -> bool:
    try:
        parsed(expression)
    except TemplateSyntaxError:
        return False
    return True


def _names(source: str, tree: nodes.Template) -> Iterator[Problem]:
    """Filters and tests that do not exist, calls whose answer is chance or the clock."""
    for call in tree.find_all(nodes.Call):
        yield from _call(source, call)
    for applied in tree.find_all(nodes.Filter):
        yield from _unknown(source, applied, "filter", FILTERS)
    for test in tree.find_all(nodes.Test):
        yield from _unknown(source, test, "test", TESTS)


def _call(source: str, node: nodes.Call) -> Iterator[Problem]:
    name = node.node.name if isinstance(node.node, nodes.Name) else ""
    if name in _CHANCE or name in _CLOCK:
        hint = _CHANCE_HINT if name in _CHANCE else _CLOCK_HINT
        message = f'"{name}()" gives something else at every run, and a replay must not'
        yield _problem(source, _offset_of_name(source, node.lineno, name), message, hint, forbidden=True)


def _unknown(source: str, node: nodes.Filter | nodes.Test, kind: str, known: Iterable[str]) -> Iterator[Problem]:
    place = _offset_of_name(source, node.lineno, node.name)
    if node.name in _CHANCE:
        message = f'the {kind} "{node.name}" is not deterministic'
        yield _problem(source, place, message, _CHANCE_HINT, forbidden=True)
    elif node.name not in known:
        hint = nearest(node.name, (name for name in known if " " not in name))
        yield _problem(source, place, f'there is no {kind} "{node.name}"', hint)


def _offset_of_name(source: str, line: int, name: str) -> int:
    start = _line_start(source, line)
    found = re.compile(rf"(?<![\w.]){re.escape(name)}\b").search(source, start)
    return found.start() if found else start


def _line_start(source: str, line: int) -> int:
    offset = 0
    for _ in range(line - 1):
        offset = source.find("\n", offset) + 1
    return offset


def _problem(source: str, offset: int, message: str, hint: str, *, forbidden: bool = False) -> Problem:
    line_start = source.rfind("\n", 0, offset) + 1
    line = source.count("\n", 0, offset) + 1
    places = expressions(source)
    inside = next((index for index, (start, end) in enumerate(places) if start <= offset < end), None)
    return Problem(message, hint, line, offset - line_start + 1, inside, forbidden)
