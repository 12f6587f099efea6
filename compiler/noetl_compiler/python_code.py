"""Checks of the Python code of a task: whether it is valid, which names are unbound, whether it has a result.

The rules are those of the tool (noetl_activities.python_child), and tests hold both against each other: code may return
at top level, and is then the body of a function; its result is else the variable ``result``, or what ``main`` returns.

Only what is certain is reported. Code that binds names in ways that no reader can follow (``exec``, ``globals()``,
``import *``) may bind any.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

__all__ = [
    "GIVEN",
    "SyntaxProblem",
    "UndefinedName",
    "gives_result",
    "number_places",
    "parsed",
    "undefined_names",
    "with_numbers",
]

GIVEN = frozenset(
    {"context", "input_data", "args", "os", "json", "datetime", "uuid"}
    | {"now_utc", "format_iso8601", "make_serializable", "get_val", "deep_merge"}
)
"""Names that the tool binds for any code, beside the task's input and its ``libs``."""

_RESULTS = frozenset({"result", "main"})
_BINDS_ANY = frozenset({"exec", "globals", "locals", "vars"})
_LONGEST = 50_000
"""Characters of code that is looked at; longer code is left to the run."""

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_VISIBLE = re.compile(r"[^\r\n]")
_QUOTED = re.compile(r"'([^']*)'")
_Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


class SyntaxProblem(NamedTuple):
    """A syntax error in Python code, with the range of characters at which the parser stopped."""

    message: str
    hint: str
    start: int
    end: int


class UndefinedName(NamedTuple):
    """A name that is read and that nothing binds, and where it is read."""

    name: str
    start: int
    end: int


def parsed(code: str) -> ast.Module | SyntaxProblem | None:
    """Parse code as the tool would; None if it cannot be checked."""
    if len(code) > _LONGEST:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
            compile(_as_function(tree) if _returns(tree) else tree, "<python task>", "exec")
    except SyntaxError as error:
        return _problem(code, error)
    except (ValueError, RecursionError, MemoryError):  # a NUL, a number too long, code too deep
        return None
    return tree


def _as_function(tree: ast.Module) -> ast.Module:
    """Code that returns at top level, as the tool compiles it."""
    wrapped = ast.parse("def task(): pass")
    future = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    function = wrapped.body[0]
    if isinstance(function, ast.FunctionDef):
        function.body = [one for one in tree.body if one not in future]
    wrapped.body[:0] = future
    return wrapped


def gives_result(tree: ast.Module) -> bool:
    """Whether the code may set ``result``, define ``main`` or return at top level. What always raises needs none, nor
    does ``pass``, which says that nothing is meant to happen.
    """
    if _returns(tree) or _binds_any(tree) or (tree.body and isinstance(tree.body[-1], ast.Raise | ast.Pass)):
        return True
    is_global = (isinstance(node, ast.Global) and not _RESULTS.isdisjoint(node.names) for node in ast.walk(tree))
    return any(is_global) or any(name in _RESULTS for node in _at_top_level(tree) for name in _bound_by(node))


def with_numbers(code: str, places: Iterable[tuple[int, int]]) -> str:
    """Return the code with the text of each span replaced by a number in brackets; other positions stay."""
    for start, end in places:
        code = f"{code[:start]}(0{_VISIBLE.sub(' ', code[start + 2 : end - 1])}){code[end:]}"
    return code


def number_places(code: str, tree: ast.Module) -> frozenset[int]:
    """Return where the expressions of the code are numbers; not in strings."""
    offsets = _Offsets(code)
    numbers = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, int))
    return frozenset(offsets.of_node(node)[0] for node in numbers)


def undefined_names(code: str, tree: ast.Module, bound: frozenset[str]) -> tuple[UndefinedName, ...]:
    """Names that neither the code, nor ``bound``, nor the tool binds. Not those in annotations, which
    are never evaluated.
    """
    if _binds_any(tree):
        return ()
    from pyflakes import messages
    from pyflakes.checker import Checker

    try:
        found = Checker(tree, builtins=bound | GIVEN).messages
    except RecursionError:
        return ()
    undefined = {(one.lineno, one.col) for one in found if isinstance(one, messages.UndefinedName)}
    if not undefined:
        return ()
    unread = {id(name) for name in _annotations(tree)}
    offsets = _Offsets(code)
    return tuple(
        UndefinedName(node.id, *offsets.of_node(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and (node.lineno, node.col_offset) in undefined and id(node) not in unread
    )


def _annotations(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield what annotations hold: the tool compiles code with ``from __future__ import annotations``."""
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            yield from ast.walk(part) if isinstance(part, ast.AST) else ()


def _returns(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Return) for node in _at_top_level(tree))


def _at_top_level(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all nodes but those inside of functions and classes."""
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, _Scope):
            waiting.extend(ast.iter_child_nodes(node))


def _bound_by(node: ast.AST) -> Iterator[str]:
    """The names that the node itself binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif isinstance(name := getattr(node, "name", None), str):  # a function, a class, a capture of except or match
        yield name


def _binds_any(tree: ast.Module) -> bool:
    """Whether names may be bound dynamically."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _BINDS_ANY:
            return True
        if isinstance(node, ast.ImportFrom) and any(one.name == "*" for one in node.names):
            return True
    return False


def _problem(code: str, error: SyntaxError) -> SyntaxProblem:
    message, _, hint = _QUOTED.sub(r'"\1"', error.msg).partition(". ")
    start, end = _place(code, error)
    return SyntaxProblem(message[:1].lower() + message[1:], hint[:1].lower() + hint[1:], start, end)


def _place(code: str, error: SyntaxError) -> tuple[int, int]:
    """Return the offsets of the error: of the whole line for an indentation error, and for an f-string, whose columns
    are relative before Python 3.12.
    """
    if error.lineno is None:
        return 0, len(code)
    offsets = _Offsets(code)
    if error.msg.startswith("f-string") or isinstance(error, IndentationError):
        return offsets.at(error.lineno, 1), offsets.at(error.lineno + 1, 1)
    start = offsets.at(error.lineno, error.offset or 1)
    end = offsets.at(error.end_lineno or error.lineno, error.end_offset or 0)
    return start, max(start + 1, end)


class _Offsets:
    """From lines and columns as Python counts them to offsets in the code."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._starts = [0, *(found.end() for found in _LINE_BREAK.finditer(code))]

    def at(self, line: int, col: int) -> int:
        """The offset of a 1-based line and column, as in syntax errors; a column beyond the line means its end."""
        start, end = self._line(line)
        return max(start, min(start + col - 1, end))

    def of_node(self, node: ast.expr) -> tuple[int, int]:
        """Start and end of a node, which has its columns in bytes of UTF-8."""
        last = node.lineno if node.end_lineno is None else node.end_lineno
        return self._in_bytes(node.lineno, node.col_offset), self._in_bytes(last, node.end_col_offset or 0)

    def _in_bytes(self, line: int, col: int) -> int:
        start, end = self._line(line)
        return start + len(self._code[start:end].encode()[:col].decode(errors="ignore"))

    def _line(self, line: int) -> tuple[int, int]:
        if line > len(self._starts):
            return len(self._code), len(self._code)
        index = max(line, 1) - 1
        end = self._starts[index + 1] if index + 1 < len(self._starts) else len(self._code)
        return self._starts[index], end
