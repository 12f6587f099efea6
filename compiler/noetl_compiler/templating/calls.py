"""Find unknown and forbidden filters, tests, functions, methods and attributes in a template.

Values of a scope are data, so only built-in functions and methods of data types can be called. A run is replayed after
a crash and must then make the same decisions, so nothing may depend on randomness, the clock, the process or the order
of a set.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from jinja2 import nodes

from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.templating.filters import FILTERS, TESTS
from noetl_compiler.templating.locate import Role, find_word
from noetl_compiler.templating.paths import Application
from noetl_compiler.templating.sandbox import ENVIRONMENT, METHODS

__all__ = ["TemplateProblem", "may_access_internals", "name_problems"]

_SIMILARITY = 0.7

_RANDOM = frozenset(
    {"choice", "choices", "gauss", "getrandbits", "lipsum", "randbytes", "randint", "random", "randrange", "sample"}
    | {"shuffle", "token_bytes", "token_hex", "token_urlsafe", "uniform", "uuid", "uuid1", "uuid4"}
)
_CLOCK = frozenset({"monotonic", "perf_counter", "time_ns", "today", "utcnow"})
_PROCESS_SPECIFIC = frozenset({"hash", "id"})
_SETS = frozenset({"difference", "frozenset", "intersect", "intersection", "set", "symmetric_difference", "union"})
_FUNCTIONS = frozenset(
    {"caller", "loop", "now", "super", *(name for name, value in ENVIRONMENT.globals.items() if callable(value))}
)
_SUGGESTED_FUNCTIONS = _FUNCTIONS - {"caller", "loop", "super"}

_CREDENTIAL_FUNCTIONS = frozenset({"token"})
"""Functions that returned a credential in older NoETL. They are unbound names now, and reported as such."""

_RANDOM_HINT = "take it from the request or from execution_id, or compute it in a python task"
_CLOCK_HINT = "use now(), which is the same in a replay, or compute it in a python task"
_SETS_HINT = "a set has no order: use a list with | unique, or a python task"

_REPLACEMENTS = {
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
"""Filter or function of another template engine -> hint; "" if a filter replaces it: one with the same name, or the one
in _FILTER_NAMES.
"""

_FILTER_NAMES = {"sorted": "sort", "reversed": "reverse"}

_INTERNAL_ATTRIBUTES = frozenset(
    {"__base__", "__bases__", "__builtins__", "__class__", "__closure__", "__code__", "__dict__", "__func__"}
    | {"__getattribute__", "__globals__", "__import__", "__init__", "__mro__", "__reduce__", "__reduce_ex__"}
    | {"__self__", "__subclasses__", "func_globals", "gi_frame"}
)
"""Attributes that give access to Python's internals; other names with underscores may be keys of data."""

_INTERNAL_NAME = re.compile("|".join(sorted(_INTERNAL_ATTRIBUTES)))


class TemplateProblem(NamedTuple):
    """A problem at offsets of the template's source. ``forbidden``: unsafe or not deterministic, not just wrong."""

    message: str
    hint: str
    start: int
    end: int
    forbidden: bool = False


def name_problems(source: str, tree: nodes.Template, applications: Iterable[Application]) -> Iterator[TemplateProblem]:
    """Yield the problems of the calls, filters, tests and attributes in a tree, in no particular order."""
    bound_names = _names_bound_in(tree) if "{%" in source else frozenset[str]()
    for node in applications:
        match node:
            case nodes.Call(node=nodes.Name(name=name)) if name not in bound_names:
                yield from _function_problems(source, name, node.lineno)
            case nodes.Call(node=nodes.Getattr() as method) if not _is_jinja_object(method.node):
                yield from _method_problems(source, method)
            case nodes.Filter():
                yield from _filter_or_test_problems(source, node.name, "filter", node.lineno)
                yield from _named_filter_problems(source, node)
            case nodes.Test():
                yield from _filter_or_test_problems(source, node.name, "test", node.lineno)
            case _:
                pass
    if may_access_internals(source):
        yield from _internal_attribute_problems(source, tree)


def may_access_internals(source: str) -> bool:
    """Whether the source may access Python's internals. A fast check that may give false positives."""
    return _INTERNAL_NAME.search(source) is not None


def _names_bound_in(tree: nodes.Template) -> frozenset[str]:
    """Return the names that the template defines: its macros and variables. Only statements define names."""
    assigned_names = (node.name for node in tree.find_all(nodes.Name) if node.ctx != "load")
    return frozenset({*assigned_names, *(macro.name for macro in tree.find_all(nodes.Macro))})


def _function_problems(source: str, name: str, line: int) -> Iterator[TemplateProblem]:
    span = find_word(source, name, "call", line)
    if hint := _nondeterminism_hint(name):
        yield _nondeterminism_problem(f"{name}()", hint, span)
    elif name not in _FUNCTIONS | _CREDENTIAL_FUNCTIONS:
        yield TemplateProblem(f'unknown function "{name}"', _replacement_hint(name, _SUGGESTED_FUNCTIONS), *span)


def _method_problems(source: str, method: nodes.Getattr) -> Iterator[TemplateProblem]:
    name = method.attr
    span = find_word(source, name, "method", method.lineno)
    is_clock = name == "now" or (name == "time" and isinstance(method.node, nodes.Name) and method.node.name == "time")
    if hint := _CLOCK_HINT if is_clock else _nondeterminism_hint(name):
        yield _nondeterminism_problem(f"{name}()", hint, span)
    elif name not in METHODS and not name.startswith("__"):
        yield TemplateProblem(f'unknown method "{name}"', _replacement_hint(name, METHODS), *span)


def _filter_or_test_problems(
    source: str, name: str, kind: Role, line: int, role: Role | None = None
) -> Iterator[TemplateProblem]:
    """Check the name of a filter or test. ``role`` says how the source writes it, if not as ``kind``."""
    known_names = FILTERS if kind == "filter" else TESTS
    if name in known_names:
        return
    span = find_word(source, name, role or kind, line)
    if hint := _nondeterminism_hint(name):
        yield _nondeterminism_problem(name, hint, span)
    else:
        suggestions = [candidate for candidate in known_names if " " not in candidate]
        yield TemplateProblem(f'unknown {kind} "{name}"', _replacement_hint(name, suggestions), *span)


def _named_filter_problems(source: str, node: nodes.Filter) -> Iterator[TemplateProblem]:
    """Check filters and tests that are named by a string: ``map('upper')``, ``selectattr('a', 'defined')``."""
    position = {"map": 0, "select": 0, "reject": 0, "selectattr": 1, "rejectattr": 1}.get(node.name)
    if position is None or position >= len(node.args):
        return
    argument = node.args[position]
    if isinstance(argument, nodes.Const) and isinstance(argument.value, str):
        yield from _filter_or_test_problems(
            source, argument.value, "filter" if node.name == "map" else "test", node.lineno, "string"
        )


def _internal_attribute_problems(source: str, tree: nodes.Template) -> Iterator[TemplateProblem]:
    for node in tree.find_all(nodes.Getattr):
        if _is_internal(node) and not any(map(_is_internal, _attribute_nodes(node.node))):
            yield _internal_attribute_problem(source, node)


def _is_internal(node: nodes.Getattr) -> bool:
    return node.attr in _INTERNAL_ATTRIBUTES


def _attribute_nodes(node: nodes.Expr) -> Iterator[nodes.Getattr]:
    if isinstance(node, nodes.Getattr):
        yield node
    yield from node.find_all(nodes.Getattr)


def _internal_attribute_problem(source: str, node: nodes.Getattr) -> TemplateProblem:
    message = f'access to "{node.attr}" is not allowed'
    return TemplateProblem(
        message, "templates can only read data", *find_word(source, node.attr, "attribute", node.lineno), forbidden=True
    )


def _nondeterminism_hint(name: str) -> str:
    """Return a hint for a function that is not deterministic, "" for any other."""
    if name in _RANDOM or name in _PROCESS_SPECIFIC:
        return _RANDOM_HINT
    if name in _CLOCK:
        return _CLOCK_HINT
    return _SETS_HINT if name in _SETS else ""


def _nondeterminism_problem(name: str, hint: str, span: tuple[int, int]) -> TemplateProblem:
    return TemplateProblem(f'"{name}" is not deterministic, so a replay could differ', hint, *span, forbidden=True)


def _replacement_hint(name: str, known_names: Collection[str]) -> str:
    if name in _REPLACEMENTS:
        return _REPLACEMENTS[name] or f"write | {_FILTER_NAMES.get(name, name)}"
    return did_you_mean(name, known_names, _SIMILARITY)


def _is_jinja_object(owner: nodes.Node) -> bool:
    """Whether a method belongs to an object of Jinja, as in ``loop.cycle()`` and ``self.block()``."""
    return isinstance(owner, nodes.Name) and owner.name in ("loop", "self")
