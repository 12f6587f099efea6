"""The shell tool: runs a playbook's commands in a sandboxed process. The process and all that it has started are killed
after the timeout, or if the worker ends (isolation/).

The child (shell_child.py) reports how the commands ended through a separate pipe, which they do not inherit.
"""

from __future__ import annotations

import json
from typing import NamedTuple, cast

from noetl_activities.errors import ConfigError
from noetl_activities.exit_status import signal_name
from noetl_activities.isolation.processes import ProcessExit, run_task
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.shell_call import ShellCall, shell_call
from noetl_activities.shell_output import CapturedStream, truncation_warning
from noetl_activities.tool import Json, OutputStream, Request, ToolContext
from noetl_activities.tool_spec import built_in

__all__ = ["TOOL", "ShellTool"]

AT_ONCE = 32
"""Most commands wait and use little processor time; each needs about 20 MB with its shell."""

_CHILD = "noetl_activities.shell_child"
_FIRST_SIGNAL_STATUS = 128
"""A shell whose command is killed by signal 9 exits with status 137."""


class _End(NamedTuple):
    """How the last command ended: -9 for signal 9. ``command`` is its number, 0 if unknown."""

    status: int
    command: int


class ShellTool:
    """The tool shell. Its fields:

    ``cmds`` or ``command``, ``env``, ``input``/``args``, ``cwd``, ``shell``.
    """

    spec = built_in("shell", at_once=AT_ONCE)

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{exit_code, stdout, stderr}``, also on an error, that is, any exit status but 0."""
        credential = None if request.auth is None else await context.credential(request.auth)
        call = shell_call(request, credential)
        stdout, stderr = CapturedStream(), CapturedStream()

        def output(stream: OutputStream, text: str) -> None:
            (stdout if stream == "stdout" else stderr).add(text)
            context.output(stream, text)

        end = _end(await run_task(_CHILD, json.dumps(call._asdict()).encode(), output))
        code = end.status if end.status >= 0 else _FIRST_SIGNAL_STATUS - end.status
        streams = {"stdout": stdout.shortened(context), "stderr": stderr.shortened(context)}
        meta = truncation_warning(stdout=stdout, stderr=stderr)
        error = _error(end, call, code, stderr.last_lines(context) or stdout.last_lines(context)) if code else None
        return Outcome("error" if code else "ok", {"exit_code": code, **streams}, error, meta)


def _end(ended: ProcessExit) -> _End:
    """The end that the child reported. If the report is invalid, the commands have killed the child or written to its
    pipe. Raises ConfigError.
    """
    try:
        answer: Json = json.loads(ended.answer)
    except (ValueError, RecursionError):
        answer = None
    fields = cast("dict[str, Json]", answer) if isinstance(answer, dict) else {}
    if isinstance(fields.get("problem"), str):
        raise ConfigError(fields["problem"])
    if isinstance(fields.get("status"), int) and isinstance(fields.get("command"), int):
        return _End(fields["status"], fields["command"])
    return _End(ended.status or 1, 0)


def _error(end: _End, call: ShellCall, code: int, message: str) -> ErrorInfo:
    failed = _failed(end, call)
    return ErrorInfo("exception", f"{failed}: {message}" if message else failed, code=str(code))


def _failed(end: _End, call: ShellCall) -> str:
    many = len(call.commands)
    which = f"command {end.command} of {many}" if many > 1 and end.command else "the command"
    if end.status < 0:
        return f"{which} was ended by {signal_name(-end.status) or 'a signal'}"
    name = signal_name(end.status - _FIRST_SIGNAL_STATUS)
    return f"{which} ended with status {end.status}{f', as after {name}' if name else ''}"


TOOL = ShellTool()
