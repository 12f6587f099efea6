"""The python tool: runs a playbook's code in a sandboxed process. The process and all that it has started are killed
after the timeout, or if the worker ends (isolation/).

The child (python_child.py) sends its result through a separate pipe from the output of the code.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any, cast

from noetl_activities.credentials import credential_name
from noetl_activities.errors import ConfigError
from noetl_activities.exit_status import exit_text
from noetl_activities.isolation.processes import run_task
from noetl_activities.isolation.settings import DIRECTORIES_VARIABLE
from noetl_activities.json_limits import has_more_values
from noetl_activities.noetl_package import NAME
from noetl_activities.outcome import TOO_DEEP, ErrorInfo, Outcome
from noetl_activities.tool import Json, Request, ToolContext
from noetl_activities.tool_spec import built_in
from noetl_compiler.language.names import CREDENTIALS_MODULE, VARS_FIELD
from noetl_compiler.language.scripts import code_in

__all__ = ["TOOL", "PythonTool"]

MAX_VALUES = 4_000_000
"""Maximum number of values in a result: 60 MB of empty lists would take 1.2 GB, and block the worker for seconds."""

_CHILD = "noetl_activities.python_child"
_NO_ACCESS = re.compile(r"PermissionError: \[Errno 13\] Permission denied: '")
_FAILURE = ("type", "message", "traceback")
"""Fields of the response for an exception; all are text."""

_NOTHING_RAISED: dict[str, Json] = {"exception": None, "traceback": None}


class PythonTool:
    """The tool python. Its fields:

    ``code`` (or ``script``, ``code_b64``), ``input``/``args``, ``libs``, ``env``.
    """

    spec = built_in("python", at_once="cores")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return the variable ``result``, the return value of ``main``, or what the code returns at top level."""
        libs, skipped = _libs(request.config.get("libs"))
        call = {
            "code": _code(request.config),
            "input": _inputs(request),
            "libs": libs,
            "env": _environment(request.config.get("env")),
            "vars": request.config.get(VARS_FIELD) or {},
            "credentials": await _credentials(request, context),
            "context": {"execution_id": request.execution_id, "attempt": context.attempt, **_inputs(request)},
        }
        ended = await run_task(_CHILD, json.dumps(call).encode(), context.output)
        meta: dict[str, Json] = {"stdout": ended.printed} if ended.printed else {}
        if skipped:
            meta["libs_not_installed_here"] = skipped
        if not ended.answer:
            return _error(f"the process ended without a result ({exit_text(ended.status)})", meta, ended.printed)
        if has_more_values(ended.answer, MAX_VALUES):
            raise ConfigError(f"the result has over {MAX_VALUES:,} values: store it and return its location")
        answer = _answer(ended.answer)
        if answer is None:
            return _error("the output of the process is not a result", meta, ended.printed)
        outcome = _outcome(answer, meta)
        if outcome.py and isinstance(traceback := outcome.py["traceback"], str):
            context.output("stderr", traceback)
        return outcome


def _code(config: dict[str, Json]) -> str:
    if isinstance(config.get("code_b64"), str):
        try:
            return base64.b64decode(config["code_b64"]).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise ConfigError("code_b64 is not base64 of UTF-8 text") from error
    code = config.get("code", code_in(config.get("script")))
    if not isinstance(code, str) or not code.strip():
        raise ConfigError("a python task needs code")
    return code


async def _credentials(request: Request, context: ToolContext) -> dict[str, Json]:
    """Return the credentials that the task names, for code that reads them. Raises CredentialError."""
    if not request.auth or CREDENTIALS_MODULE not in _code(request.config):
        return {}
    auth: Json = request.auth
    several = isinstance(auth, dict) and all(
        isinstance(reference, dict) for reference in cast("dict[str, Json]", auth).values()
    )
    references: list[Json] = list(cast("dict[str, Json]", auth).values()) if several else [auth]
    names = ((credential_name(reference), reference) for reference in references)
    return {name: dict(await context.credential(reference)) for name, reference in names if name}


def _inputs(request: Request) -> dict[str, Json]:
    own = request.config.get("args") or request.config.get("input")
    return {**(cast("dict[str, Json]", own) if isinstance(own, dict) else {}), **request.input}


def _libs(libs: Json) -> tuple[dict[str, str], list[str]]:
    """``{alias: module}`` or ``{alias: {from: module, import: name}}``, as ``module`` and ``module:name``; a list names
    packages to install, which a task may not do: they must be there already.
    """
    if isinstance(libs, dict):
        return {str(alias): _imported(module) for alias, module in cast("dict[str, Any]", libs).items()}, []
    return {}, [str(name) for name in cast("list[Any]", libs)] if isinstance(libs, list) else []


def _imported(module: Any) -> str:
    if not isinstance(module, dict):
        return str(module)
    module_spec = cast("dict[str, Any]", module)
    return (
        f"{module_spec.get('from') or module_spec.get('module')}:{module_spec['import']}"
        if module_spec.get("import")
        else str(module_spec.get("from"))
    )


def _environment(extra: Json) -> dict[str, str]:
    return {str(k): str(v) for k, v in cast("dict[str, Any]", extra).items()} if isinstance(extra, dict) else {}


def _outcome(answer: dict[str, Json], meta: dict[str, Json]) -> Outcome:
    if answer["ok"]:
        return Outcome("ok", answer["result"], meta=meta, py=_NOTHING_RAISED, set=answer.get("set") or {})
    if "too_deep" in answer:
        return Outcome("error", error=ErrorInfo("too_large", TOO_DEEP), meta=meta, py=_NOTHING_RAISED)
    message = f"{answer['type']}: {answer['message']}" if answer["message"] else answer["type"]
    line: Json = answer.get("line")
    line = line if isinstance(line, int) and not isinstance(line, bool) else None
    if line is not None:
        message += f" (line {line} of the code)"
    if _NO_ACCESS.match(message):
        message += (
            f": a task uses files in its own folder and in the directories of {DIRECTORIES_VARIABLE} of the worker"
        )
    error = ErrorInfo("exception", message, code=answer["type"])
    raised: dict[str, Json] = {"exception": answer["type"], "traceback": answer["traceback"], "line": line}
    return Outcome("error", error=error, meta=meta, py=raised)


def _answer(text: bytes) -> dict[str, Json] | None:
    """Return the response; None if it is invalid, because the code can write to the pipe, too."""
    try:
        answer: Json = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fields = cast("dict[str, Json]", answer) if isinstance(answer, dict) else {}
    if fields.get("ok") is True:
        return fields if "result" in fields and _are_variables(fields.get("set") or {}) else None
    if fields.get("too_deep") is True and fields.get("ok") is False:
        return fields
    is_failure = fields.get("ok") is False and all(isinstance(fields.get(name), str) for name in _FAILURE)
    return fields if is_failure else None


def _are_variables(given: Json) -> bool:
    return isinstance(given, dict) and all(map(NAME.fullmatch, cast("dict[str, Json]", given)))


def _error(message: str, meta: dict[str, Json], printed: str) -> Outcome:
    tail = printed.strip().splitlines()[-1:] or [""]
    info = ErrorInfo("exception", f"{message}: {tail[0]}".rstrip(": "))
    return Outcome("error", error=info, meta=meta, py=_NOTHING_RAISED)


TOOL = PythonTool()
