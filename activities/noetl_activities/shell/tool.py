"""The shell tool: runs a playbook's commands in a sandboxed process. The process, and all processes that it has
started, are killed after the timeout, or if the worker ends (isolation/).

The child (child.py) reports how the commands ended through a separate pipe, which they do not inherit.
"""

from __future__ import annotations

import json
from typing import NamedTuple, cast

from noetl_activities.captured_output import CapturedStream, truncation_warning
from noetl_activities.errors import ConfigError
from noetl_activities.exit_status import signal_name
from noetl_activities.isolation.processes import ProcessExit, run_task
from noetl_activities.isolation.refusals import refusal_hint
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.shell.call import ShellCall, shell_call
from noetl_activities.tool import Json, OutputStream, Request, ToolContext
from noetl_activities.tool_spec import built_in

__all__ = ["TOOL", "ShellTool"]

MAX_CONCURRENT = 32
"""Most commands wait and use little processor time; each needs about 20 MB with its shell."""

_CHILD = "noetl_activities.shell.child"
_FIRST_SIGNAL_STATUS = 128
"""A shell whose command is killed by signal 9 exits with status 137."""


class _CommandExit(NamedTuple):
    """The exit status of the last command, -9 for signal 9, and its number, from 1; 0 if unknown."""

    status: int
    command: int


class ShellTool:
    """The tool shell. Its fields:

    ``cmds`` or ``command``, ``env``, ``input``/``args``, ``cwd``, ``shell``.
    """

    spec = built_in("shell", max_concurrent=MAX_CONCURRENT)

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{exit_code, stdout, stderr}``, also for a command that fails: any exit status but 0."""
        credential = None if request.auth is None else await context.credential(request.auth)
        call = shell_call(request, credential)
        stdout, stderr = CapturedStream(), CapturedStream()

        def output(stream: OutputStream, text: str) -> None:
            (stdout if stream == "stdout" else stderr).add(text)
            context.output(stream, text)

        command_exit = _command_exit(await run_task(_CHILD, json.dumps(call._asdict()).encode(), output))
        code = command_exit.status if command_exit.status >= 0 else _FIRST_SIGNAL_STATUS - command_exit.status
        streams = {"stdout": stdout.result_text(context), "stderr": stderr.result_text(context)}
        meta = truncation_warning(stdout=stdout, stderr=stderr)
        error = (
            _error_info(command_exit, call, code, stderr.last_lines(context) or stdout.last_lines(context))
            if code
            else None
        )
        return Outcome("error" if code else "ok", {"exit_code": code, **streams}, error, meta)


def _command_exit(process_exit: ProcessExit) -> _CommandExit:
    """Return the exit that the child reported. The report is invalid if the commands have killed the child or written
    to its pipe. Raises ConfigError if a command could not be started.
    """
    try:
        report: Json = json.loads(process_exit.response)
    except (ValueError, RecursionError):
        report = None
    fields = cast("dict[str, Json]", report) if isinstance(report, dict) else {}
    if isinstance(fields.get("error"), str):
        raise ConfigError(fields["error"])
    if isinstance(fields.get("status"), int) and isinstance(fields.get("command"), int):
        return _CommandExit(fields["status"], fields["command"])
    return _CommandExit(process_exit.status or 1, 0)


def _error_info(command_exit: _CommandExit, call: ShellCall, code: int, message: str) -> ErrorInfo:
    failure = _failure_text(command_exit, call)
    hint = refusal_hint(message)
    return ErrorInfo("exception", ": ".join(filter(None, (failure, message, hint))), code=str(code))


def _failure_text(command_exit: _CommandExit, call: ShellCall) -> str:
    count = len(call.commands)
    label = f"command {command_exit.command} of {count}" if count > 1 and command_exit.command else "the command"
    if command_exit.status < 0:
        return f"{label} was ended by {signal_name(-command_exit.status) or 'a signal'}"
    name = signal_name(command_exit.status - _FIRST_SIGNAL_STATUS)
    return f"{label} ended with status {command_exit.status}{f', as after {name}' if name else ''}"


TOOL = ShellTool()
