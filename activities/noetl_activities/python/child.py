"""Runs one python task in its own process, which isolation/ starts and sandboxes. Uses only the standard library.

The call is ``{code, input, libs, env, context, vars, credentials}`` as JSON. Writes ``{ok, result, set}``,
``{ok, type, message, traceback}`` or ``{ok, too_deep}`` to the descriptor named by argv[1]. Output of the code goes to
stdout and stderr.

A playbook's code has one of three forms: it sets ``result``, it defines ``main``, or it returns at top level. A return
at top level is not valid Python, so such code is compiled as the body of a function, with unchanged line numbers. The
names that it assigns are then local, so globals with these names become parameters of the function, and ``x = int(x)``
reads the input.

Every call pays for the imports of this file, and importing everything would take twice as long as starting the
interpreter. So modules that only some calls need are imported where they are used.
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

TYPE_CHECKING = False  # type checkers treat it as true; importing it from ``typing`` is slow
if TYPE_CHECKING:
    import ast
    import traceback
    from collections.abc import Callable
    from typing import Any

FILE = "<python task>"
VAR_KEYWORDS = 0x08
"""The flag of the code of a function that takes ``**kwargs`` (inspect.CO_VARKEYWORDS)."""


def main() -> None:
    """Run the task and write its response. Called in the process that becomes the supervisor of the task."""
    data, _ = start_task()
    out = os.fdopen(int(sys.argv[1]), "w")
    os.set_inheritable(out.fileno(), False)
    pid = os.getpid()
    call = json.loads(data)
    os.environ.update(call["env"])
    flush_each_line()
    if "logging" in call["code"]:
        log_to_stderr()
    try:
        text = success_response(run(call))
    except BaseException as error:
        text = json.dumps(failure_response(error, call["code"]))
    if os.getpid() != pid:
        os._exit(0)  # the task's code has forked this process: its parent writes the response
    sys.stdout.flush()
    out.write(text)
    out.close()


def flush_each_line() -> None:
    """Flush stdout after each line, so that the line is logged immediately."""
    out: Any = sys.stdout
    out.reconfigure(line_buffering=True)


def log_to_stderr() -> None:
    """Write log messages of the code to stderr, from level INFO on, unless the code configures logging."""
    import logging

    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.lastResort = handler
    logging.root.setLevel(logging.INFO)


def success_response(result: Any) -> str:
    """Return the response for a result; ``too_deep`` if it is nested too deeply for JSON, or contains itself."""
    try:
        return json.dumps({"ok": True, "result": to_json(result), "set": to_json(noetl_package.changes)})
    except RecursionError:
        return json.dumps({"ok": False, "too_deep": True})
    except NotJsonError as error:
        path = path_of(error.value, result, "result") or path_of(error.value, noetl_package.changes, "ctx")
        hint = "return its text, its fields as a dict, or list(...) of what it iterates over"
        raise TypeError(
            f'"{path or "result"}" is of type {type_name(type(error.value))}, not a JSON value: {hint}'
        ) from None


def run(call: dict[str, Any]) -> Any:
    """Run the code and return its result."""
    if "noetl" in call["code"]:
        noetl_package.install(call["vars"], call["credentials"])
    names = globals_of(call)
    code = compile_code(call["code"])
    if code is None:
        return call_with_return(call["code"], names)
    exec(code, names)  # noqa: S102 - this process is sandboxed
    function = names.get("main")
    if "result" in names and (not callable(function) or "result" not in call["input"]):
        return names["result"]
    if callable(function) and getattr(function, "__module__", "__main__") == "__main__":
        positional, keywords = call_arguments(function, call)
        return await_result(function(*positional, **keywords))
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
        module_name, _, member = module.partition(":")
        user_module = importlib.import_module(module_name)
        names[alias] = getattr(user_module, member) if member else user_module
    return names


def get_val(tree: Any, path: str, default: Any) -> Any:
    """Return the value at a path such as ``data.items``, for code of older playbooks."""
    for part in str(path).split("."):
        if isinstance(tree, dict) and part in tree:
            tree = tree[part]
        else:
            return default
    return tree


def deep_merge(base: Any, override: Any) -> Any:
    """Merge nested mappings; any other value of ``override`` replaces that of ``base``."""
    if isinstance(base, dict) and isinstance(override, dict):
        return {**base, **{key: deep_merge(base.get(key), value) for key, value in override.items()}}
    return override


def compile_code(text: str) -> types.CodeType | None:
    """Compile code; None if it returns at top level."""
    try:
        return compile(text, FILE, "exec")
    except SyntaxError:
        import ast

        if not has_top_level_return(ast.parse(text, FILE)):
            raise
        return None


def has_top_level_return(tree: ast.Module) -> bool:
    """Whether the code returns outside of any function."""
    import ast

    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending.extend(ast.iter_child_nodes(node))
    return False


def call_with_return(text: str, names: dict[str, Any]) -> Any:
    """Run code that returns at top level, as a function, and return its result."""
    import ast

    tree = ast.parse(text, FILE)
    future_imports = [
        statement
        for statement in tree.body
        if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
    ]
    body = [statement for statement in tree.body if statement not in future_imports]
    function_code = define_task(body, [], future_imports, dict(names)).__code__
    inputs = sorted({*function_code.co_varnames, *function_code.co_cellvars} & names.keys())
    return define_task(body, inputs, future_imports, names)(**{name: names[name] for name in inputs})


def define_task(
    body: list[ast.stmt], inputs: list[str], future_imports: list[ast.ImportFrom], names: dict[str, Any]
) -> Any:
    """Return a function with this body, whose keyword parameters are ``inputs``."""
    import ast

    tree = ast.parse("def __task__(*, " + ", ".join(inputs) + "): pass" if inputs else "def __task__(): pass")
    function: Any = tree.body[0]
    function.body = body
    tree.body[:0] = future_imports
    exec(compile(ast.fix_missing_locations(tree), FILE, "exec"), names)  # noqa: S102
    return names["__task__"]


def call_arguments(function: Callable[..., Any], call: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return (positional, by name) arguments for ``main`` from the input of the task. ``context``, ``input_data`` and
    ``args`` are special, unless an input has that name.
    """
    inputs, special = call["input"], {"context": call["context"], "input_data": call["input"], "args": call["input"]}
    positional, by_name, optional, takes_any_name = function_parameters(function)
    values = {**{name: special[name] for name in special if name in by_name}, **inputs}
    arguments = values if takes_any_name else {name: values[name] for name in by_name if name in values}
    missing = [name for name in by_name if name not in arguments and name not in optional]
    if len(missing) == 1 and not inputs:
        arguments[missing[0]] = call["context"]
    return [inputs[name] for name in positional if name in inputs], arguments


def function_parameters(function: Callable[..., Any]) -> tuple[list[str], list[str], set[str], bool]:
    """Return (positional-only names, other names, names with a default, whether it takes ``**kwargs``). Reads the code
    object of a plain function; ``inspect``, which is slow to import, is only used for other callables.
    """
    if type(function) is type(function_parameters) and not vars(function):  # a wrapper has the attribute __wrapped__
        code, defaults = function.__code__, function.__defaults__ or ()
        count, positional_only = code.co_argcount, code.co_posonlyargcount
        names = list(code.co_varnames[: count + code.co_kwonlyargcount])
        optional = {*names[count - len(defaults) : count], *(function.__kwdefaults__ or ())}
        return names[:positional_only], names[positional_only:], optional, bool(code.co_flags & VAR_KEYWORDS)
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


def await_result(value: Any) -> Any:
    """Return the value, or the result of a coroutine."""
    if isinstance(value, types.CoroutineType):
        import asyncio

        return asyncio.run(value)
    return value


class NotJsonError(TypeError):
    """A part of a result is not a JSON value."""

    def __init__(self, value: Any) -> None:
        super().__init__(f"{type_name(type(value))} is not a JSON value")
        self.value = value


def to_json(value: Any, fallback: Callable[[Any], Any] | None = None) -> Any:
    """Convert the types that tasks commonly return to JSON: dates, decimals, sets, bytes, values of numpy. ``fallback``
    converts values of other types; without it they raise NotJsonError. The worker replaces NaN and infinity
    (non_finite.py).
    """
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (dict, Mapping)):
        return {key_to_text(key, fallback): to_json(item, fallback) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_json(item, fallback) for item in value]
    if isinstance(value, (bytes, bytearray)):
        import base64

        return base64.b64encode(value).decode()
    if callable(getattr(value, "tolist", None)):
        return to_json(value.tolist(), fallback)
    if isinstance(value, (Sequence, KeysView, ValuesView, ItemsView)):
        return [to_json(item, fallback) for item in value]
    if isinstance(value, Set):
        return [to_json(item, fallback) for item in sorted(value, key=repr)]
    return scalar_to_json(value, fallback)


def scalar_to_json(value: Any, fallback: Callable[[Any], Any] | None) -> Any:
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (datetime.timedelta, *types_with_text())):
        return str(value)
    if isinstance(value, loaded_type("enum", "Enum")):
        return to_json(value.value, fallback)
    if hasattr(type(value), "__float__") or hasattr(type(value), "__index__"):
        return float(value)
    if fallback is None:
        raise NotJsonError(value)
    return fallback(value)


def key_to_text(key: Any, fallback: Callable[[Any], Any] | None) -> str:
    if isinstance(key, str):
        return key
    to_json(key, fallback)
    return str(key)


def types_with_text() -> list[type]:
    """Return the types that are converted with ``str``. Modules that the code has not imported are not needed."""
    return [loaded_type(*name) for name in (("uuid", "UUID"), ("pathlib", "PurePath"), ("ipaddress", "_IPAddressBase"))]


def loaded_type(module: str, name: str) -> Any:
    """Return a type for ``isinstance``; an empty tuple, which matches nothing, if its module is not loaded."""
    return getattr(sys.modules.get(module), name, ())


def type_name(kind: type) -> str:
    return (
        kind.__qualname__ if kind.__module__ in ("builtins", "__main__") else f"{kind.__module__}.{kind.__qualname__}"
    )


def path_of(part: Any, value: Any, path: str) -> str:
    """Return the path of a part in a value, such as ``result.rows[2].when``; "" if the value does not contain it."""
    if value is part:
        return path
    if isinstance(value, Mapping):
        children = [(key if key is part else item, f"{path}.{key}") for key, item in value.items()]
    elif isinstance(value, (Sequence, Set, ValuesView)) and not isinstance(value, (str, bytes)):
        children = [(item, f"{path}[{index}]") for index, item in enumerate(value)]
    else:
        return ""
    return next(filter(None, (path_of(part, item, child_path) for item, child_path in children)), "")


def serializable(value: Any) -> Any:
    """Return the value for code that writes JSON itself, with None for NaN and infinity, and strings for values without
    a JSON type.
    """
    return json.loads(json.dumps(to_json(value, str)), parse_constant=lambda _name: None)


def failure_response(error: BaseException, code: str) -> dict[str, Any]:
    """Return the response for an exception, with a traceback that starts in the code of the task."""
    import linecache
    import traceback

    linecache.cache[FILE] = (len(code), None, code.splitlines(keepends=True), FILE)
    exception = traceback.TracebackException.from_exception(error, compact=True)
    remove_frames_of_this_file(exception)
    lines = [frame.lineno for frame in exception.stack if frame.filename == FILE]
    return {
        "ok": False,
        "type": type(error).__name__,
        "message": str(error),
        "line": lines[-1] if lines else getattr(error, "lineno", None),
        "traceback": "".join(exception.format()),
    }


def remove_frames_of_this_file(exception: traceback.TracebackException | None) -> None:
    """Remove the frames of this file from an exception, its causes and the members of an exception group."""
    if exception is None:
        return
    first = next((index for index, frame in enumerate(exception.stack) if frame.filename == FILE), 0)
    del exception.stack[:first]
    exception.stack[:] = [frame for frame in exception.stack if frame.filename != __file__]
    for related_exception in (
        exception.__cause__,
        exception.__context__,
        *(getattr(exception, "exceptions", None) or ()),
    ):
        remove_frames_of_this_file(related_exception)
