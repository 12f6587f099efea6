"""Finds literals that repeat a table of ``noetl_compiler.language``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple, cast

from noetl_compiler.language import defaults, events, keychain, keys, names, sinks, tools, transfers, words
from noetl_compiler.language.error_kinds import ERROR_KINDS
from noetl_compiler.language.quantities import UNITS

__all__ = ["Finding", "declared_again"]


class Table(NamedTuple):
    """A literal with ``least`` of the members, when these are at least half of it, repeats the table."""

    name: str
    members: frozenset[str]
    least: int


class Finding(NamedTuple):
    """A literal that repeats a table."""

    line: int
    table: str


@cache
def tables() -> tuple[Table, ...]:
    choices = {
        name: frozenset(cast("Mapping[str, object]", table))
        for name, table in vars(words).items()
        if isinstance(table, words.Words)
    }
    boundaries = {
        boundary: events.names_of(boundary) for boundary in (*events.AFTER_CALL.values(), *events.AFTER_LOOP.values())
    }
    engine = {
        name: frozenset(cast("Mapping[str, object]", facts))
        for name, facts in vars(names).items()
        if name != "PREVIOUS_OUTCOME" and name in names.__all__ and isinstance(facts, frozenset | Mapping)
    }
    sets = {
        **{f"words.{name}": facts for name, facts in choices.items()},
        **{f"events.names_of({name})": facts for name, facts in boundaries.items()},
        "events.CASE_EVENTS": frozenset(events.CASE_EVENTS),
        **{f"names.{name}": facts for name, facts in engine.items()},
        "sinks.TRANSACTIONAL_KINDS": sinks.TRANSACTIONAL_KINDS,
        "sinks.KINDS": sinks.KINDS,
        "sinks.EVENT_KINDS": sinks.EVENT_KINDS,
        "sinks.KIND_KEYS": frozenset(sinks.KIND_KEYS),
        **{f"sinks.VALUE_KEYS[{key}]": frozenset(facts) for key, facts in sinks.VALUE_KEYS.items()},
        "tools.METHODS": tools.METHODS,
        "tools.SQL_KINDS": tools.SQL_KINDS,
        "tools.SQL_COMMANDS": frozenset(tools.SQL_COMMANDS),
        "tools.PSEUDO_KINDS": tools.PSEUDO_KINDS,
        "tools.SEVERAL_CREDENTIALS": tools.SEVERAL_CREDENTIALS,
        "tools.V1_KINDS": frozenset(tools.V1_KINDS),
        "defaults.FRAME": frozenset(defaults.FRAME),
        "quantities.UNITS": frozenset(UNITS),
        "keys.INPUT": frozenset(keys.INPUT),
        "keys.PREVIOUS": keys.PREVIOUS,
        "keychain.CREDENTIAL_FIELDS": frozenset(keychain.CREDENTIAL_FIELDS),
        "transfers.KIND_KEYS": frozenset(transfers.KIND_KEYS),
        "transfers.SOURCES": frozenset(transfers.SOURCES),
    }
    small = tuple(Table(name, facts, _min_size(len(facts))) for name, facts in sets.items() if len(facts) > 1)
    large = (
        Table("tools.KINDS", frozenset(tools.KINDS), 3),
        Table("keys.ROUTE_INPUT", frozenset(keys.ROUTE_INPUT), 4),
        Table("error_kinds.ERROR_KINDS", frozenset(ERROR_KINDS), 4),
    )
    return (*small, *large)


def _min_size(size: int) -> int:
    return size if size <= 3 else size // 2 + 1


_DEFAULTS: Mapping[str, tuple[str, object]] = {
    "ATTEMPTS": (r"(?<!maximum_)attempts", defaults.ATTEMPTS),
    "PAGES": (r"pages?", defaults.PAGES),
    "DELAY": (r"delay", defaults.DELAY),
    "MULTIPLIER": (r"multiplier|factor", defaults.MULTIPLIER),
    "RETRY_MAX_DELAY": (r"max_delay", defaults.RETRY_MAX_DELAY),
    "IN_FLIGHT": (r"in_flight|concurrency", defaults.IN_FLIGHT),
    "COLLECTED_AS": (r"into", defaults.COLLECTED_AS),
}
_UNLESS_GIVEN = re.compile(r"\b\d+(?: \w+){0,4} unless given|\"(?:pages|item)\" unless given")
_UNITS = re.compile(r"\bms\b\W+s\b\W+m\b")
_KEY_TYPES = re.compile(rf"Mapping\[(?:{'|'.join(name for name in words.__all__ if not name.isupper())})\b")


def declared_again(source: str) -> list[Finding]:
    """Each literal of a module that repeats a table: a list of words, a default, a grammar of durations."""
    tree = ast.parse(source)
    findings = [Finding(line, table) for line, listed in _name_lists(tree) for table in _repeated_tables(listed)]
    findings += [Finding(line, f"defaults.{name}") for line, name in _repeated_defaults(tree)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            if _UNLESS_GIVEN.search(node.value):
                findings.append(Finding(node.lineno, "defaults"))
            if _UNITS.search(node.value):
                findings.append(Finding(node.lineno, "quantities"))
    return sorted(set(findings))


def _repeated_tables(listed: frozenset[str]) -> Iterator[str]:
    for table in tables():
        common = len(table.members & listed)
        if common >= table.least and 2 * common >= len(listed):
            yield table.name


def _name_lists(tree: ast.Module) -> Iterator[tuple[int, frozenset[str]]]:
    """The texts of every literal list, set, tuple, ``Literal`` and mapping of words, and of every call of ``words``."""
    functions = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.AnnAssign) and _is_function(node)}
    functions |= {id(node) for outer in ast.walk(tree) if id(outer) in functions for node in ast.walk(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Set | ast.Tuple):
            yield node.lineno, _texts(node.elts)
        elif isinstance(node, ast.Dict) and id(node) not in functions and _maps_words(node):
            yield node.lineno, _texts(node.keys)
        elif isinstance(node, ast.Call) and "words" in ast.unparse(node.func):
            args = [element for arg in node.args for element in (arg.keys if isinstance(arg, ast.Dict) else (arg,))]
            yield node.lineno, _texts(args)
        elif isinstance(node, ast.Call) and (words_of := _split(node.func)):
            yield node.lineno, frozenset(words_of.split())


def _split(function: ast.expr) -> str:
    """The text of ``"some words".split``, else none."""
    text = function.value if isinstance(function, ast.Attribute) and function.attr == "split" else None
    return text.value if isinstance(text, ast.Constant) and isinstance(text.value, str) else ""


def _is_function(node: ast.AnnAssign) -> bool:
    """A mapping whose keys have the type of a choice: it is no list of words, and type checkers check its keys."""
    return _KEY_TYPES.search(ast.unparse(node.annotation)) is not None


def _maps_words(node: ast.Dict) -> bool:
    """Whether it maps words to words or to several of them: a table of functions or of messages is none."""
    return all(
        (isinstance(value, ast.Constant) and re.fullmatch(r"[\w.-]*", str(value.value)))
        or isinstance(value, ast.Tuple | ast.List | ast.Set)
        or (isinstance(value, ast.Call) and ast.unparse(value.func) in ("frozenset", "tuple", "set"))
        for value in node.values
    )


def _texts(nodes: list[ast.expr] | list[ast.expr | None]) -> frozenset[str]:
    return frozenset(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _repeated_defaults(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Where something called like a default is given its value as a literal."""
    for line, name, value in _literals(tree):
        for default, (pattern, number) in _DEFAULTS.items():
            if re.search(rf"(?i)(?:^|_)(?:{pattern})$", name) and value == number and type(value) is type(number):
                yield line, default


def _literals(tree: ast.Module) -> Iterator[tuple[int, str, object]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for key, value in _pairs(node):
                yield node.lineno, ast.unparse(key), _constant(value)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            yield node.lineno, ast.unparse(node.target), _constant(node.value)
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.value.lineno, node.arg, _constant(node.value)


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Each target and its value, those of ``a, b = 1, 2`` one by one."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _constant(node: ast.expr) -> object:
    """A literal, also as ``Value(3)`` or as what stands behind ``or``."""
    if isinstance(node, ast.BoolOp):
        node = node.values[-1]
    if isinstance(node, ast.Call) and len(node.args) == 1 and ast.unparse(node.func).endswith("Value"):
        node = node.args[0]
    return node.value if isinstance(node, ast.Constant) else None
