"""The python tool: runs a playbook's code in a sandboxed process. The process, and all processes that it has started,
are killed after the timeout, or if the worker ends (isolation/).

The child (child.py) sends its result through a separate pipe from the output of the code.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, cast

from noetl_activities.credentials import credential_name
from noetl_activities.errors import ConfigError
from noetl_activities.exit_status import exit_text
from noetl_activities.isolation.processes import run_task
from noetl_activities.isolation.refusals import refusal_hint
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

_CHILD = "noetl_activities.python.child"
_FAILURE_FIELDS = ("type", "message", "traceback")
"""Fields of the response for an exception; all are strings."""

_NO_EXCEPTION: dict[str, Json] = {"exception": None, "traceback": None}


class PythonTool:
    """The tool python. Its fields:

    ``code`` (or ``script``, ``code_b64``), ``input``/``args``, ``libs``, ``env``.
    """

    spec = built_in("python", max_concurrent="cores")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return the variable ``result``, the return value of ``main``, or what the code returns at top level."""
        libs, packages = _parse_libs(request.config.get("libs"))
        call = {
            "code": _code(request.config),
            "input": _input(request),
            "libs": libs,
            "env": _environment(request.config.get("env")),
            "vars": request.config.get(VARS_FIELD) or {},
            "credentials": await _credentials(request, context),
            "context": {"execution_id": request.execution_id, "attempt": context.attempt, **_input(request)},
        }
        process_exit = await run_task(_CHILD, json.dumps(call).encode(), context.output)
        meta: dict[str, Json] = {"stdout": process_exit.output_start} if process_exit.output_start else {}
        if packages:
            meta["libs_not_installed_here"] = packages
        if not process_exit.response:
            return _error(
                f"the process ended without a result ({exit_text(process_exit.status)})",
                meta,
                process_exit.output_start,
            )
        if has_more_values(process_exit.response, MAX_VALUES):
            raise ConfigError(f"the result has over {MAX_VALUES:,} values: store it and return its location")
        response = _parse_response(process_exit.response)
        if response is None:
            return _error("the output of the process is not a result", meta, process_exit.output_start)
        outcome = _outcome(response, meta)
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
    are_several = isinstance(auth, dict) and all(
        isinstance(reference, dict) for reference in cast("dict[str, Json]", auth).values()
    )
    references: list[Json] = list(cast("dict[str, Json]", auth).values()) if are_several else [auth]
    names = ((credential_name(reference), reference) for reference in references)
    return {name: dict(await context.credential(reference)) for name, reference in names if name}


def _input(request: Request) -> dict[str, Json]:
    arguments = request.config.get("args") or request.config.get("input")
    return {**(cast("dict[str, Json]", arguments) if isinstance(arguments, dict) else {}), **request.input}


def _parse_libs(libs: Json) -> tuple[dict[str, str], list[str]]:
    """Return ``{alias: module}`` or ``{alias: module:name}`` for a mapping of libs; and the packages in a list of libs,
    which must already be installed, as a task may not install packages.
    """
    if isinstance(libs, dict):
        return {str(alias): _import_path(module) for alias, module in cast("dict[str, Any]", libs).items()}, []
    return {}, [str(name) for name in cast("list[Any]", libs)] if isinstance(libs, list) else []


def _import_path(module: Any) -> str:
    if not isinstance(module, dict):
        return str(module)
    module_spec = cast("dict[str, Any]", module)
    return (
        f"{module_spec.get('from') or module_spec.get('module')}:{module_spec['import']}"
        if module_spec.get("import")
        else str(module_spec.get("from"))
    )


def _environment(variables: Json) -> dict[str, str]:
    if not isinstance(variables, dict):
        return {}
    return {str(name): str(value) for name, value in cast("dict[str, Any]", variables).items()}


def _outcome(response: dict[str, Json], meta: dict[str, Json]) -> Outcome:
    if response["ok"]:
        return Outcome("ok", response["result"], meta=meta, py=_NO_EXCEPTION, set=response.get("set") or {})
    if "too_deep" in response:
        return Outcome("error", error=ErrorInfo("too_large", TOO_DEEP), meta=meta, py=_NO_EXCEPTION)
    message = f"{response['type']}: {response['message']}" if response["message"] else response["type"]
    line: Json = response.get("line")
    line = line if isinstance(line, int) and not isinstance(line, bool) else None
    if line is not None:
        message += f" (line {line} of the code)"
    if hint := refusal_hint(message):
        message += f": {hint}"
    error = ErrorInfo("exception", message, code=response["type"])
    py: dict[str, Json] = {"exception": response["type"], "traceback": response["traceback"], "line": line}
    return Outcome("error", error=error, meta=meta, py=py)


def _parse_response(text: bytes) -> dict[str, Json] | None:
    """Return the response; None if it is invalid, which is possible because the code can write to the pipe, too."""
    try:
        response: Json = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fields = cast("dict[str, Json]", response) if isinstance(response, dict) else {}
    if fields.get("ok") is True:
        return fields if "result" in fields and _are_variables(fields.get("set") or {}) else None
    if fields.get("too_deep") is True and fields.get("ok") is False:
        return fields
    is_failure = fields.get("ok") is False and all(isinstance(fields.get(name), str) for name in _FAILURE_FIELDS)
    return fields if is_failure else None


def _are_variables(value: Json) -> bool:
    return isinstance(value, dict) and all(map(NAME.fullmatch, cast("dict[str, Json]", value)))


def _error(message: str, meta: dict[str, Json], output: str) -> Outcome:
    last_line = output.strip().splitlines()[-1:] or [""]
    info = ErrorInfo("exception", f"{message}: {last_line[0]}".rstrip(": "))
    return Outcome("error", error=info, meta=meta, py=_NO_EXCEPTION)


TOOL = PythonTool()
