"""Runs one python task in its own process, which isolation/ starts and sandboxes. Uses only the standard library.

The call is ``{code, input, libs, env, context, vars, credentials}`` as JSON. Writes ``{ok, result, set}``,
``{ok, type, message, traceback}`` or ``{ok, too_deep}`` to the descriptor named by argv[1]. Output of the code goes to
stdout and stderr.

A playbook's code has one of three forms: it sets ``result``, it defines ``main``, or it returns at top level. The last
is not valid Python, so only then the code is compiled as the body of a function, with unchanged line numbers. Names
that it assigns are then local, so globals with these names become its parameters: ``x = int(x)`` reads the input.

Every call pays for the imports of this file; importing everything would take twice as long as starting the interpreter.
So modules that only some calls need are imported where they are used.
"""

# Values come from the code of the task and have no static types.
# pyright: basic

from __future__ import annotations

import datetime
import json
import os
import sys
import types
from collections.abc import ItemsView, KeysView, Mapping, Sequence, Set, ValuesView

from noetl_activities import noetl_package
from noetl_activities.isolation.supervisor import start_task

TYPE_CHECKING = False  # as type checkers read it; ``typing`` itself would have to be imported
if TYPE_CHECKING:
    import ast
    import traceback
    from collections.abc import Callable
    from typing import Any

FILE = "<python task>"
VAR_KEYWORDS = 0x08
"""The flag of a code object that takes ``**rest`` (inspect.CO_VARKEYWORDS)."""


def main() -> None:
    """Called in the process that becomes the supervisor of the task."""
    given, _ = start_task()
    out = os.fdopen(int(sys.argv[1]), "w")
    os.set_inheritable(out.fileno(), False)
    own = os.getpid()
    call = json.loads(given)
    os.environ.update(call["env"])
    print_lines_at_once()
    if "logging" in call["code"]:
        show_logging()
    try:
        text = answer(run(call))
    except BaseException as error:
        text = json.dumps(failure(error, call["code"]))
    if os.getpid() != own:
        os._exit(0)  # a fork made by the task's code: its parent sends the answer
    sys.stdout.flush()
    out.write(text)
    out.close()


def print_lines_at_once() -> None:
    """Flush output after each line, so that it is logged immediately."""
    out: Any = sys.stdout
    out.reconfigure(line_buffering=True)


def show_logging() -> None:
    """Send the log of the code to stderr, from level INFO on, unless the code has configured logging."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.lastResort = handler
    logging.root.setLevel(logging.INFO)


def answer(result: Any) -> str:
    """Return the response for a result; ``too_deep`` if it is nested too deeply for JSON, or contains itself."""
    try:
        return json.dumps({"ok": True, "result": plain(result), "set": plain(noetl_package.written)})
    except RecursionError:
        return json.dumps({"ok": False, "too_deep": True})
    except NotJsonError as error:
        path = path_to(error.value, result, "result") or path_to(error.value, noetl_package.written, "ctx")
        hint = "return its text, its fields as a dict, or list(...) of what it iterates over"
        raise TypeError(
            f'"{path or "result"}" is of type {named(type(error.value))}, not a JSON value: {hint}'
        ) from None


def run(call: dict[str, Any]) -> Any:
    """Run the code and return its result."""
    if "noetl" in call["code"]:
        noetl_package.install(call["vars"], call["credentials"])
    names = globals_of(call)
    code = compiled(call["code"])
    if code is None:
        return call_returning(call["code"], names)
    exec(code, names)  # noqa: S102 - what this process is for
    function = names.get("main")
    if "result" in names and (not callable(function) or "result" not in call["input"]):
        return names["result"]
    if callable(function) and getattr(function, "__module__", "__main__") == "__main__":
        positional, named = arguments(function, call)
        return finished(function(*positional, **named))
    return names.get("result")


def globals_of(call: dict[str, Any]) -> dict[str, Any]:
    """Return the globals of the code: its input, some modules, and the functions that NoETL provides."""
    names = {
        "__name__": "__main__",
        "context": call["context"],
        "input_data": call["input"],
        "args": call["input"],
        "os": os,
        "json": json,
        "datetime": datetime,
        "now_utc": lambda: datetime.datetime.now(datetime.timezone.utc),  # noqa: UP017
        "format_iso8601": lambda when: when.isoformat(),
        "make_serializable": serializable,
        "get_val": lambda tree, path, default=None: get_val(tree, path, default),
        "deep_merge": deep_merge,
        **call["input"],
    }
    if "uuid" in call["code"]:
        import uuid

        names.setdefault("uuid", uuid)
    if call["libs"]:
        import importlib
    for alias, module in call["libs"].items():
        whole, _, part = module.partition(":")
        user_module = importlib.import_module(whole)
        names[alias] = getattr(user_module, part) if part else user_module
    return names


def get_val(tree: Any, path: str, default: Any) -> Any:
    for part in str(path).split("."):
        if isinstance(tree, dict) and part in tree:
            tree = tree[part]
        else:
            return default
    return tree


def deep_merge(under: Any, over: Any) -> Any:
    if isinstance(under, dict) and isinstance(over, dict):
        return {**under, **{key: deep_merge(under.get(key), value) for key, value in over.items()}}
    return over


def compiled(text: str) -> types.CodeType | None:
    """Compile code; None if it returns at top level."""
    try:
        return compile(text, FILE, "exec")
    except SyntaxError:
        import ast

        if not returns(ast.parse(text, FILE)):
            raise
        return None


def returns(tree: ast.Module) -> bool:
    """Whether the code returns outside of any function."""
    import ast

    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def call_returning(text: str, names: dict[str, Any]) -> Any:
    import ast

    tree = ast.parse(text, FILE)
    future = [
        statement
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    ]
    body = [statement for statement in tree.body if statement not in future]
    assigned = define(body, [], future, dict(names)).__code__
    inputs = sorted({*assigned.co_varnames, *assigned.co_cellvars} & names.keys())
    return define(body, inputs, future, names)(**{name: names[name] for name in inputs})


def define(body: list[ast.stmt], inputs: list[str], future: list[ast.ImportFrom], names: dict[str, Any]) -> Any:
    import ast

    tree = ast.parse("def __task__(*, " + ", ".join(inputs) + "): pass" if inputs else "def __task__(): pass")
    function: Any = tree.body[0]
    function.body = body
    tree.body[:0] = future
    exec(compile(ast.fix_missing_locations(tree), FILE, "exec"), names)  # noqa: S102
    return names["__task__"]


def arguments(function: Callable[..., Any], call: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments by name, from the inputs; ``context``, ``input_data`` and ``args`` are special unless an
    input has that name.
    """
    given, special = call["input"], {"context": call["context"], "input_data": call["input"], "args": call["input"]}
    positional, named, optional, takes_all = parameters(function)
    values = {**{name: special[name] for name in special if name in named}, **given}
    wanted = values if takes_all else {name: values[name] for name in named if name in values}
    missing = [name for name in named if name not in wanted and name not in optional]
    if len(missing) == 1 and not given:
        wanted[missing[0]] = call["context"]
    return [given[name] for name in positional if name in given], wanted


def parameters(function: Callable[..., Any]) -> tuple[list[str], list[str], set[str], bool]:
    """(positional-only names, other names, names with a default, whether there is ``**rest``): from the code object of
    a plain function, from ``inspect`` for other callables.
    """
    if type(function) is type(parameters) and not vars(function):  # a wrapper has its function's __wrapped__
        code, some_default = function.__code__, function.__defaults__ or ()
        count, only = code.co_argcount, code.co_posonlyargcount
        names = list(code.co_varnames[: count + code.co_kwonlyargcount])
        optional = {*names[count - len(some_default) : count], *(function.__kwdefaults__ or ())}
        return names[:only], names[only:], optional, bool(code.co_flags & VAR_KEYWORDS)
    import inspect

    signature_parameters = inspect.signature(function).parameters.values()
    return (
        [parameter.name for parameter in signature_parameters if parameter.kind is parameter.POSITIONAL_ONLY],
        [
            parameter.name
            for parameter in signature_parameters
            if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        ],
        {parameter.name for parameter in signature_parameters if parameter.default is not parameter.empty},
        any(parameter.kind is parameter.VAR_KEYWORD for parameter in signature_parameters),
    )


def finished(value: Any) -> Any:
    if isinstance(value, types.CoroutineType):
        import asyncio

        return asyncio.run(value)
    return value


class NotJsonError(TypeError):
    """A part of a result is not a JSON value."""

    def __init__(self, value: Any) -> None:
        super().__init__(f"{named(type(value))} is not a JSON value")
        self.value = value


def plain(value: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """JSON of what tasks commonly return: dates, decimals, sets, bytes, numpy's values. ``other`` converts anything
    else; without it that raises NotJsonError. NaN and infinity stay for the worker to find (non_finite.py).
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (dict, Mapping)):
        return {text_of_key(key, other): plain(item, other) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, other) for item in value]
    if isinstance(value, (bytes, bytearray)):
        import base64

        return base64.b64encode(value).decode()
    if callable(getattr(value, "tolist", None)):
        return plain(value.tolist(), other)
    if isinstance(value, (Sequence, KeysView, ValuesView, ItemsView)):
        return [plain(item, other) for item in value]
    if isinstance(value, Set):
        return [plain(item, other) for item in sorted(value, key=repr)]
    return scalar(value, other)


def scalar(value: Any, other: Callable[[Any], Any] | None) -> Any:
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (datetime.timedelta, *text_types())):
        return str(value)
    if isinstance(value, loaded("enum", "Enum")):
        return plain(value.value, other)
    if hasattr(type(value), "__float__") or hasattr(type(value), "__index__"):
        return float(value)
    if other is None:
        raise NotJsonError(value)
    return other(value)


def text_of_key(key: Any, other: Callable[[Any], Any] | None) -> str:
    if isinstance(key, str):
        return key
    plain(key, other)
    return str(key)


def text_types() -> list[type]:
    """Types whose text is their value. What the code has not imported it cannot return."""
    return [loaded(*name) for name in (("uuid", "UUID"), ("pathlib", "PurePath"), ("ipaddress", "_IPAddressBase"))]


def loaded(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, ())


def named(kind: type) -> str:
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def path_to(part: Any, value: Any, path: str) -> str:
    """Return the path of a part of a value, such as ``result.rows[2].when``; "" if it is not there."""
    if value is part:
        return path
    if isinstance(value, Mapping):
        below = [(key if key is part else item, f"{path}.{key}") for key, item in value.items()]
    elif isinstance(value, (Sequence, Set, ValuesView)) and not isinstance(value, (str, bytes)):
        below = [(item, f"{path}[{index}]") for index, item in enumerate(value)]
    else:
        return ""
    return next(filter(None, (path_to(part, item, at) for item, at in below)), "")


def serializable(value: Any) -> Any:
    """The value for code that writes JSON itself: null for NaN and infinity, text for values without a JSON type."""
    return json.loads(json.dumps(plain(value, str)), parse_constant=lambda _name: None)


def failure(error: BaseException, code: str) -> dict[str, Any]:
    """Return the response for an exception, with a traceback that starts in the code of the task."""
    import linecache
    import traceback

    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    exception = traceback.TracebackException.from_exception(error, compact=True)
    leave_out_own_frames(exception)
    lines = [frame.lineno for frame in exception.stack if frame.filename == FILE]
    return {
        "ok": False,
        "type": type(error).__name__,
        "message": str(error),
        "line": lines[-1] if lines else getattr(error, "lineno", None),
        "traceback": "".join(exception.format()),
    }


def leave_out_own_frames(exception: traceback.TracebackException | None) -> None:
    """Those that called the code, of this exception, its causes and the parts of a group."""
    if exception is None:
        return
    first = next((index for index, frame in enumerate(exception.stack) if frame.filename == FILE), 0)
    del exception.stack[:first]
    exception.stack[:] = [frame for frame in exception.stack if frame.filename != __file__]
    for below in (exception.__cause__, exception.__context__, *(getattr(exception, "exceptions", None) or ())):
        leave_out_own_frames(below)
