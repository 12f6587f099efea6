"""Report unknown and forbidden filters, tests, functions, methods and attributes of a template.

Values of a scope are data, so only functions of the language and methods of data can be called. A run is replayed after
a crash and must then make the same decisions, so nothing may depend on randomness, the clock, the process or the order
of a set.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from jinja2 import nodes

from noetl_compiler.diagnostics import nearest
from noetl_compiler.templating.filters import FILTERS, TESTS
from noetl_compiler.templating.locate import Role, find_word
from noetl_compiler.templating.paths import Applied
from noetl_compiler.templating.sandbox import ENVIRONMENT, METHODS

__all__ = ["TemplateProblem", "may_see_inner", "problems_of_names"]

_ALIKE = 0.7

_CHANCE = frozenset(
    {"choice", "choices", "gauss", "getrandbits", "lipsum", "randbytes", "randint", "random", "randrange", "sample"}
    | {"shuffle", "token_bytes", "token_hex", "token_urlsafe", "uniform", "uuid", "uuid1", "uuid4"}
)
_CLOCK = frozenset({"monotonic", "perf_counter", "time_ns", "today", "utcnow"})
_OF_PROCESS = frozenset({"hash", "id"})
_SETS = frozenset({"difference", "frozenset", "intersect", "intersection", "set", "symmetric_difference", "union"})
_FUNCTIONS = frozenset(
    {"caller", "loop", "now", "super", *(name for name, value in ENVIRONMENT.globals.items() if callable(value))}
)
_OFFERED = _FUNCTIONS - {"caller", "loop", "super"}

_OF_CREDENTIALS = frozenset({"token"})
"""Functions that once returned a credential. They are unbound names now, and reported as such."""

_CHANCE_HINT = "take it from the request or from execution_id, or compute it in a python task"
_CLOCK_HINT = "use now(), which is the same in a replay, or compute it in a python task"
_SETS_HINT = "a set has no order: use a list with | unique, or a python task"

_INSTEAD = {
    "attr": 'write a["name"]',
    "combine": "write dict(a, **b)",
    "forceescape": "write | escape",
    "loads": "write | from_json",
    "dumps": "write | to_json",
    "pprint": "write | to_json",
    "safe": "leave it out: nothing is escaped here",
    "str": "write | string",
    "len": "write | length",
    "bool": "compare it with a value",
    **dict.fromkeys(("int", "float", "list", "sum", "min", "max", "abs", "round", "sorted", "reversed"), ""),
}
"""Filter or function of other engines -> what to write instead; "" for filters of almost the same name."""


_INNER = frozenset(
    {"__base__", "__bases__", "__builtins__", "__class__", "__closure__", "__code__", "__dict__", "__func__"}
    | {"__getattribute__", "__globals__", "__import__", "__init__", "__mro__", "__reduce__", "__reduce_ex__"}
    | {"__self__", "__subclasses__", "func_globals", "gi_frame"}
)
"""Attributes that lead to Python's internals; other names with underscores may be keys of data."""

_INNER_NAME = re.compile("|".join(sorted(_INNER)))


class TemplateProblem(NamedTuple):
    """A finding at offsets of the template's source. ``forbidden``: unsafe or not deterministic, not just wrong."""

    message: str
    hint: str
    start: int
    end: int
    forbidden: bool = False


def problems_of_names(source: str, tree: nodes.Template, applied: Iterable[Applied]) -> Iterator[TemplateProblem]:
    """Yield the problems of everything that the tree calls or applies, in no particular order."""
    bound = _bound_in(tree) if "{%" in source else frozenset[str]()
    for node in applied:
        match node:
            case nodes.Call(node=nodes.Name(name=name)) if name not in bound:
                yield from _function(source, name, node.lineno)
            case nodes.Call(node=nodes.Getattr() as called) if not _is_of_jinja(called.node):
                yield from _method(source, called)
            case nodes.Filter():
                yield from _unknown(source, node.name, "filter", node.lineno)
                yield from _named(source, node)
            case nodes.Test():
                yield from _unknown(source, node.name, "test", node.lineno)
            case _:
                pass
    if may_see_inner(source):
        yield from _all_inner(source, tree)


def may_see_inner(source: str) -> bool:
    """Whether the source may contain an attribute that leads to Python's internals. Cheap; may be a false positive."""
    return _INNER_NAME.search(source) is not None


def _bound_in(tree: nodes.Template) -> frozenset[str]:
    """Return the names that the template defines: its macros and variables. Only statements define names."""
    stored = (node.name for node in tree.find_all(nodes.Name) if node.ctx != "load")
    return frozenset({*stored, *(macro.name for macro in tree.find_all(nodes.Macro))})


def _function(source: str, name: str, line: int) -> Iterator[TemplateProblem]:
    place = find_word(source, name, "call", line)
    if hint := _changing(name):
        yield _not_deterministic(f"{name}()", hint, place)
    elif name not in _FUNCTIONS | _OF_CREDENTIALS:
        yield TemplateProblem(f'unknown function "{name}"', _instead(name, _OFFERED), *place)


def _method(source: str, called: nodes.Getattr) -> Iterator[TemplateProblem]:
    name = called.attr
    place = find_word(source, name, "method", called.lineno)
    is_clock = name == "now" or (name == "time" and isinstance(called.node, nodes.Name) and called.node.name == "time")
    if hint := _CLOCK_HINT if is_clock else _changing(name):
        yield _not_deterministic(f"{name}()", hint, place)
    elif name not in METHODS and not name.startswith("__"):
        yield TemplateProblem(f'unknown method "{name}"', _instead(name, METHODS), *place)


def _unknown(source: str, name: str, kind: Role, line: int, found_as: Role | None = None) -> Iterator[TemplateProblem]:
    known = FILTERS if kind == "filter" else TESTS
    if name in known:
        return
    place = find_word(source, name, found_as or kind, line)
    if hint := _changing(name):
        yield _not_deterministic(name, hint, place)
    else:
        offered = [one for one in known if " " not in one]
        yield TemplateProblem(f'unknown {kind} "{name}"', _instead(name, offered), *place)


def _named(source: str, node: nodes.Filter) -> Iterator[TemplateProblem]:
    """Check filters and tests that are named by a string: ``map('upper')``, ``selectattr('a', 'defined')``."""
    at = {"map": 0, "select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}.get(node.name)
    if at is None or at >= len(node.args):
        return
    given = node.args[at]
    if isinstance(given, nodes.Const) and isinstance(given.value, str):
        yield from _unknown(source, given.value, "filter" if node.name == "map" else "test", node.lineno, "named")


def _all_inner(source: str, tree: nodes.Template) -> Iterator[TemplateProblem]:
    for node in tree.find_all(nodes.Getattr):
        if _is_inner(node) and not any(map(_is_inner, _attributes(node.node))):
            yield _inner(source, node)


def _is_inner(node: nodes.Getattr) -> bool:
    return node.attr in _INNER


def _attributes(node: nodes.Expr) -> Iterator[nodes.Getattr]:
    if isinstance(node, nodes.Getattr):
        yield node
    yield from node.find_all(nodes.Getattr)


def _inner(source: str, node: nodes.Getattr) -> TemplateProblem:
    message = f'access to "{node.attr}" is not allowed'
    return TemplateProblem(
        message, "templates can only read data", *find_word(source, node.attr, "attribute", node.lineno), forbidden=True
    )


def _changing(name: str) -> str:
    """Return a hint for a name that is not deterministic, "" for one that is."""
    if name in _CHANCE or name in _OF_PROCESS:
        return _CHANCE_HINT
    if name in _CLOCK:
        return _CLOCK_HINT
    return _SETS_HINT if name in _SETS else ""


def _not_deterministic(what: str, hint: str, place: tuple[int, int]) -> TemplateProblem:
    return TemplateProblem(f'"{what}" is not deterministic, so a replay could differ', hint, *place, forbidden=True)


def _instead(name: str, known: Collection[str]) -> str:
    if name in _INSTEAD:
        return _INSTEAD[name] or f"write | {_FILTER_NAMES.get(name, name)}"
    return nearest(name, known, _ALIKE)


_FILTER_NAMES = {"sorted": "sort", "reversed": "reverse"}


def _is_of_jinja(owner: nodes.Node) -> bool:
    """``loop.cycle()`` and ``self.block()``."""
    return isinstance(owner, nodes.Name) and owner.name in ("loop", "self")
