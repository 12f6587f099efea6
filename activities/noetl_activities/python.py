"""The python tool: a playbook's code in a process of its own, killed with everything it started when its time is
over.

The child (python_child.py) gets code and input as JSON on stdin and answers on a pipe of its own, so that what the
code prints stays the code's. Its environment is an allow-list: nothing secret is inherited.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Generator
from io import FileIO
from pathlib import Path
from typing import Any, cast

from noetl_activities.errors import ConfigError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Json, Request, ToolContext, ToolSpec

__all__ = ["TOOL", "PythonTool"]

_CHILD = Path(__file__).with_name("python_child.py")
_ENVIRONMENT = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "TEMP", "TMP", "VIRTUAL_ENV", "SYSTEMROOT")
_MAX_PRINTED = 64 * 1024
_MAX_ANSWER = 64 * 1024 * 1024
_GRACE = 1.0
"""Seconds to read what is left in the pipes of a child that has ended."""


class PythonTool:
    """``code`` (or ``script``, ``code_b64``), ``input``/``args``, ``libs``, ``env``."""

    spec = ToolSpec("python", "runs Python code in a process of its own", at_once="cores")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """The result is the variable ``result``, what ``main`` returns, or what the code returns at top level."""
        libs, skipped = _libs(request.config.get("libs"))
        call = {
            "code": _code(request.config),
            "input": _inputs(request),
            "libs": libs,
            "context": {"execution_id": request.execution_id, "attempt": context.attempt, **_inputs(request)},
        }
        printed, answer, status = await _run_child(json.dumps(call).encode(), _environment(request.config.get("env")))
        meta: dict[str, Json] = {"stdout": printed} if printed else {}
        if skipped:
            meta["libs_not_installed_here"] = skipped
        if not answer:
            return _error("exception", f"the process ended with status {status} and no result", meta, printed)
        return _outcome(json.loads(answer), meta)


def _code(config: dict[str, Json]) -> str:
    if isinstance(config.get("code_b64"), str):
        try:
            return base64.b64decode(config["code_b64"]).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise ConfigError("code_b64 is not base64 of UTF-8 text") from error
    code = config.get("code", config.get("script"))
    if not isinstance(code, str) or not code.strip():
        raise ConfigError("a python task needs code")
    return code


def _inputs(request: Request) -> dict[str, Json]:
    own = request.config.get("args") or request.config.get("input")
    return {**(cast("dict[str, Json]", own) if isinstance(own, dict) else {}), **request.input}


def _libs(libs: Json) -> tuple[dict[str, str], list[str]]:
    """``{alias: module}``; a list names packages to install, which a task may not do: they must be there already."""
    if isinstance(libs, dict):
        return {str(alias): str(module) for alias, module in cast("dict[str, Any]", libs).items()}, []
    return {}, [str(name) for name in cast("list[Any]", libs)] if isinstance(libs, list) else []


def _environment(extra: Json) -> dict[str, str]:
    allowed = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    own = {str(k): str(v) for k, v in cast("dict[str, Any]", extra).items()} if isinstance(extra, dict) else {}
    return {**allowed, "PYTHONIOENCODING": "utf-8", "PYTHONDONTWRITEBYTECODE": "1", **own}


async def _run_child(stdin: bytes, environment: dict[str, str]) -> tuple[str, bytes, int]:
    """(what it printed, its answer, exit status). Cancellation kills the child and all it started."""
    with _pipe() as (printed_to, printing), _pipe() as (answered_to, answering):
        child = await _started(environment, printing.fileno(), answering.fileno())
        printing.close()
        answering.close()
        printed, answer = bytearray(), bytearray()
        reads = asyncio.gather(
            _drain(printed_to, printed, _MAX_PRINTED), _drain(answered_to, answer, _MAX_ANSWER + 1), _feed(child, stdin)
        )
        try:
            status = await _ended(child, reads)
        finally:
            await _kill(child)
            reads.cancel()
            await asyncio.wait([reads])
    if len(answer) > _MAX_ANSWER:
        raise ConfigError("the result is over 64 MB: store it and return where it is")
    return printed.decode("utf-8", "replace"), bytes(answer), status


@contextlib.contextmanager
def _pipe() -> Generator[tuple[FileIO, FileIO]]:
    """(reading end, writing end). Pipes of our own: asyncio's would keep ``wait`` until all who hold them are gone."""
    reading, writing = os.pipe()
    with FileIO(reading) as reader, FileIO(writing, "w") as writer:
        yield reader, writer


async def _started(environment: dict[str, str], printing: int, answering: int) -> Process:
    """``-P``: the child's own folder is no place to import from, its http.py would stand before Python's."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-X", "utf8", str(_CHILD), str(answering)),
        stdin=PIPE,
        stdout=printing,
        stderr=printing,
        env=environment,
        pass_fds=(answering,),
        start_new_session=True,
    )


async def _ended(child: Process, reads: asyncio.Future[Any]) -> int:
    """The child's exit status. What the child started and left behind is killed, not waited for: it may hold the
    pipes for ever.
    """
    status = await child.wait()
    await _kill(child)
    await asyncio.wait([reads], timeout=_GRACE)
    return status


async def _feed(child: Process, stdin: bytes) -> None:
    assert child.stdin is not None  # noqa: S101 - a pipe was asked for
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(stdin)
        await child.stdin.drain()
    child.stdin.close()


async def _drain(pipe: FileIO, kept: bytearray, limit: int) -> None:
    """Read to the end; keep the beginning."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        while chunk := await reader.read(65536):
            kept += chunk[: max(0, limit - len(kept))]
    finally:
        transport.close()


async def _kill(child: Process) -> None:
    """End the child's whole session; harmless when all of it has ended."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    await child.wait()


def _outcome(answer: dict[str, Json], meta: dict[str, Json]) -> Outcome:
    if answer["ok"]:
        return Outcome("ok", answer["result"], meta=meta, py={"exception": None, "traceback": None})
    message = f"{answer['type']}: {answer['message']}" if answer["message"] else str(answer["type"])
    if answer.get("line"):
        message += f" (line {answer['line']} of the code)"
    error = ErrorInfo("exception", message, code=str(answer["type"]))
    return Outcome("error", error=error, meta=meta, py={"exception": answer["type"], "traceback": answer["traceback"]})


def _error(kind: str, message: str, meta: dict[str, Json], printed: str) -> Outcome:
    tail = printed.strip().splitlines()[-1:] or [""]
    return Outcome("error", error=ErrorInfo(kind, f"{message}: {tail[0]}".rstrip(": ")), meta=meta, py={})


TOOL = PythonTool()
