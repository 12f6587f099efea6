"""Check the Python code of a task: whether it is valid, which names are unbound, whether it has a result.

The rules are those of the tool (noetl_activities.python.child), and tests compare both. Code that returns at top level
is the body of a function. Otherwise its result is the variable ``result``, or what ``main`` returns.

Only problems that are certain are reported. Code that binds names dynamically (``exec``, ``globals()``, ``import *``)
may bind any name.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

__all__ = [
    "TOOL_NAMES",
    "PythonSyntaxError",
    "UndefinedName",
    "gives_result",
    "number_offsets",
    "parse_code",
    "replace_with_numbers",
    "undefined_names",
]

TOOL_NAMES = frozenset(
    {"context", "input_data", "args", "os", "json", "datetime", "uuid"}
    | {"now_utc", "format_iso8601", "make_serializable", "get_val", "deep_merge"}
)
"""Names that the tool binds for any code, beside the task's input and its ``libs``."""

_RESULTS = frozenset({"result", "main"})
_DYNAMIC_BINDERS = frozenset({"exec", "globals", "locals", "vars"})
_MAX_CHARS = 50_000
"""Longer code is not checked."""

_LINE_BREAK = re.compile(r"\r\n|\r|\n")
_VISIBLE = re.compile(r"[^\r\n]")
_QUOTED = re.compile(r"'([^']*)'")
_Scope: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


class PythonSyntaxError(NamedTuple):
    """A syntax error in Python code, with the range of characters at which the parser stopped."""

    message: str
    hint: str
    start: int
    end: int


class UndefinedName(NamedTuple):
    """An unbound name, and the range of characters where it is read."""

    name: str
    start: int
    end: int


def parse_code(code: str) -> ast.Module | PythonSyntaxError | None:
    """Parse code as the tool would; None if it cannot be checked."""
    if len(code) > _MAX_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(code)
            compile(_wrap_in_function(tree) if _returns(tree) else tree, "<python task>", "exec")
    except SyntaxError as error:
        return _as_syntax_error(code, error)
    except (ValueError, RecursionError, MemoryError):  # a NUL, a number too long, code too deep
        return None
    return tree


def _wrap_in_function(tree: ast.Module) -> ast.Module:
    """Return the code as the body of a function, as which the tool compiles code with ``return`` at top level."""
    wrapper = ast.parse("def task(): pass")
    future_imports = [
        statement
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    ]
    function = wrapper.body[0]
    if isinstance(function, ast.FunctionDef):
        function.body = [statement for statement in tree.body if statement not in future_imports]
    wrapper.body[:0] = future_imports
    return wrapper


def gives_result(tree: ast.Module) -> bool:
    """Whether the code may set ``result``, define ``main`` or return at top level. Code that ends with ``raise`` or
    ``pass`` needs no result.
    """
    if _returns(tree) or _may_bind_dynamically(tree) or (tree.body and isinstance(tree.body[-1], ast.Raise | ast.Pass)):
        return True
    if any(isinstance(node, ast.Global) and not _RESULTS.isdisjoint(node.names) for node in ast.walk(tree)):
        return True
    return any(name in _RESULTS for node in _top_level_nodes(tree) for name in _names_bound_by(node))


def replace_with_numbers(code: str, ranges: Iterable[tuple[int, int]]) -> str:
    """Return the code with each range replaced by a number in brackets of the same length, which keeps all offsets."""
    for start, end in ranges:
        code = f"{code[:start]}(0{_VISIBLE.sub(' ', code[start + 2 : end - 1])}){code[end:]}"
    return code


def number_offsets(code: str, tree: ast.Module) -> frozenset[int]:
    """Return the offsets of the integers in the code, but not of those inside strings."""
    offsets = _Offsets(code)
    numbers = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, int))
    return frozenset(offsets.of_node(node)[0] for node in numbers)


def undefined_names(code: str, tree: ast.Module, bound_names: frozenset[str]) -> tuple[UndefinedName, ...]:
    """Return the names that the code uses and neither it nor the tool binds, without ``bound_names`` and without names
    in annotations, which are never evaluated.
    """
    if _may_bind_dynamically(tree):
        return ()
    from pyflakes import messages
    from pyflakes.checker import Checker

    try:
        checker_messages = Checker(tree, builtins=bound_names | TOOL_NAMES).messages
    except RecursionError:
        return ()
    positions = {
        (message.lineno, message.col) for message in checker_messages if isinstance(message, messages.UndefinedName)
    }
    if not positions:
        return ()
    annotation_ids = {id(name) for name in _annotation_nodes(tree)}
    offsets = _Offsets(code)
    return tuple(
        UndefinedName(node.id, *offsets.of_node(node))
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and (node.lineno, node.col_offset) in positions and id(node) not in annotation_ids
    )


def _annotation_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes inside annotations: the tool compiles code with ``from __future__ import annotations``."""
    for node in ast.walk(tree):
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            yield from ast.walk(part) if isinstance(part, ast.AST) else ()


def _returns(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Return) for node in _top_level_nodes(tree))


def _top_level_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield all nodes except those inside functions and classes."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _Scope):
            pending.extend(ast.iter_child_nodes(node))


def _names_bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that the node itself binds."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.partition(".")[0]
    elif isinstance(name := getattr(node, "name", None), str):  # a function, a class, a capture of except or match
        yield name


def _may_bind_dynamically(tree: ast.Module) -> bool:
    """Whether the code may bind names dynamically."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _DYNAMIC_BINDERS:
            return True
        if isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names):
            return True
    return False


def _as_syntax_error(code: str, error: SyntaxError) -> PythonSyntaxError:
    message, _, hint = _QUOTED.sub(r'"\1"', error.msg).partition(". ")
    start, end = _error_range(code, error)
    return PythonSyntaxError(message[:1].lower() + message[1:], hint[:1].lower() + hint[1:], start, end)


def _error_range(code: str, error: SyntaxError) -> tuple[int, int]:
    """Return the offsets of the error: of the whole line for an indentation error, and for an f-string, whose columns
    are relative before Python 3.12.
    """
    if error.lineno is None:
        return 0, len(code)
    offsets = _Offsets(code)
    if error.msg.startswith("f-string") or isinstance(error, IndentationError):
        return offsets.of_column(error.lineno, 1), offsets.of_column(error.lineno + 1, 1)
    start = offsets.of_column(error.lineno, error.offset or 1)
    end = offsets.of_column(error.end_lineno or error.lineno, error.end_offset or 0)
    return start, max(start + 1, end)


class _Offsets:
    """Converts lines and columns as Python counts them to offsets in the code."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._line_starts = [0, *(line_break.end() for line_break in _LINE_BREAK.finditer(code))]

    def of_column(self, line: int, col: int) -> int:
        """Return the offset of a 1-based line and column, as in syntax errors; a column beyond the line is its end."""
        start, end = self._line(line)
        return max(start, min(start + col - 1, end))

    def of_node(self, node: ast.expr) -> tuple[int, int]:
        """Return start and end of a node, whose columns count bytes of UTF-8."""
        last = node.lineno if node.end_lineno is None else node.end_lineno
        return self._offset_of_bytes(node.lineno, node.col_offset), self._offset_of_bytes(
            last, node.end_col_offset or 0
        )

    def _offset_of_bytes(self, line: int, col: int) -> int:
        start, end = self._line(line)
        return start + len(self._code[start:end].encode()[:col].decode(errors="ignore"))

    def _line(self, line: int) -> tuple[int, int]:
        if line > len(self._line_starts):
            return len(self._code), len(self._code)
        index = max(line, 1) - 1
        end = self._line_starts[index + 1] if index + 1 < len(self._line_starts) else len(self._code)
        return self._line_starts[index], end
