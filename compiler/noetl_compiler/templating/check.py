"""What is wrong with a template before it runs: syntax, unknown filters and tests, parts that are not deterministic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.diagnostics import nearest
from noetl_compiler.source import expressions
from noetl_compiler.templating.filters import FILTERS, TESTS
from noetl_compiler.templating.paths import paths_in, unguarded
from noetl_compiler.templating.program import compiled, parsed
from noetl_compiler.templating.sandbox import ENVIRONMENT, METHODS
from noetl_compiler.templating.words import OFFSET, Role, broken_part, find_word

__all__ = ["Facts", "Problem", "check", "examine"]

_SURELY_SHALLOW = 150

_CHANCE = frozenset({"choice", "lipsum", "randint", "random", "shuffle", "uuid", "uuid1", "uuid4"})
_CLOCK = frozenset({"today", "utcnow"})
_FUNCTIONS = frozenset(
    {"caller", "loop", "now", "super", *(name for name, value in ENVIRONMENT.globals.items() if callable(value))}
)
_OF_CREDENTIALS = frozenset({"token"})
"""Functions that once gave a credential. Nothing binds them, which is told as of any other name."""

_CHANCE_HINT = "take it from the request, from execution_id, or make it in a python task"
_CLOCK_HINT = "use now(), which a replay sees unchanged, or make it in a python task"


class Problem(NamedTuple):
    """A finding at offsets of the template. ``forbidden`` tells what is unsafe or not deterministic from bad syntax."""

    message: str
    hint: str
    start: int
    end: int
    forbidden: bool = False


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
        problems = tuple(sorted(_names(source, tree), key=_place))
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
    message = _in_our_words(error.message or "not valid Jinja2")
    hint = "write == to compare" if message.endswith('got "="') else ""
    return Problem(message, hint, *broken_part(source, error))


def _in_our_words(message: str) -> str:
    """Jinja's message as ours are: lower case, no full stop, double quotes; the place is told elsewhere."""
    told = OFFSET.sub("", message[:1].lower() + message[1:].removesuffix("."))
    return told if '"' in told else told.replace("'", '"')


def _names(source: str, tree: nodes.Template) -> Iterator[Problem]:
    """Filters and tests that do not exist, calls whose answer is chance or the clock."""
    for node in tree.find_all((nodes.Call, nodes.Filter, nodes.Test)):
        match node:
            case nodes.Call():
                yield from _call(source, node, tree)
            case nodes.Filter():
                yield from _unknown(source, node, "filter", FILTERS)
            case nodes.Test():
                yield from _unknown(source, node, "test", TESTS)


def _call(source: str, node: nodes.Call, tree: nodes.Template) -> Iterator[Problem]:
    """Values of a scope are data, so only functions of the language and methods of data can be called."""
    called = node.node
    if isinstance(called, nodes.Name):
        yield from _function(source, called.name, node.lineno, tree)
    elif isinstance(called, nodes.Getattr) and called.attr not in METHODS and not _is_of_jinja(called.node):
        message, hint = f'there is no method "{called.attr}"', nearest(called.attr, METHODS)
        yield Problem(message, hint, *find_word(source, called.attr, "method", node.lineno))


def _function(source: str, name: str, line: int, tree: nodes.Template) -> Iterator[Problem]:
    place = find_word(source, name, "call", line)
    if name in _CHANCE or name in _CLOCK:
        hint = _CHANCE_HINT if name in _CHANCE else _CLOCK_HINT
        message = f'"{name}()" gives something else at every run, and a replay must not'
        yield Problem(message, hint, *place, forbidden=True)
    elif name not in _FUNCTIONS | _OF_CREDENTIALS and not _is_bound(name, tree):
        yield Problem(f'there is no function "{name}"', nearest(name, _FUNCTIONS), *place)


def _is_of_jinja(owner: nodes.Node) -> bool:
    """``loop.cycle()`` and ``self.block()``."""
    return isinstance(owner, nodes.Name) and owner.name in ("loop", "self")


def _is_bound(name: str, tree: nodes.Template) -> bool:
    """Whether the template itself makes something of that name: a macro, a variable."""
    stored = (node.name for node in tree.find_all(nodes.Name) if node.ctx != "load")
    return name in {*stored, *(macro.name for macro in tree.find_all(nodes.Macro))}


def _unknown(source: str, node: nodes.Filter | nodes.Test, kind: Role, known: Iterable[str]) -> Iterator[Problem]:
    if node.name in _CHANCE:
        message = f'the {kind} "{node.name}" is not deterministic'
        yield Problem(message, _CHANCE_HINT, *find_word(source, node.name, kind, node.lineno), forbidden=True)
    elif node.name not in known:
        hint = nearest(node.name, (name for name in known if " " not in name))
        yield Problem(f'there is no {kind} "{node.name}"', hint, *find_word(source, node.name, kind, node.lineno))
