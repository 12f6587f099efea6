"""The shell tool: runs a playbook's commands in a sandboxed process, which ends with everything it has started when its
time is over, and when its worker is gone (isolation/).

The child (shell_child.py) tells how the commands have ended through a pipe of its own, which they do not have.
"""

from __future__ import annotations

import json
import signal
from typing import NamedTuple, cast

from noetl_activities.errors import ConfigError
from noetl_activities.isolation.captured import Captured
from noetl_activities.isolation.processes import ProcessExit, run_task
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.scrub import CUT_MARGIN
from noetl_activities.shell_call import ShellCall, shell_call
from noetl_activities.tool import Json, Request, ToolContext
from noetl_activities.tool_spec import built_in

__all__ = ["MAX_OUTPUT", "TOOL", "ShellTool"]

MAX_OUTPUT = 256 * 1024
"""Bytes of stdout, and of stderr, in a result: both fit into history where nothing is stored elsewhere."""

AT_ONCE = 32
"""Most commands wait for something else and use no processor meanwhile; each takes some 20 MB with its shell."""

_CHILD = "noetl_activities.shell_child"
_END_LINES = 5
_END_CHARS = 1000
"""Of the output, in the message of a command that fails."""

_FIRST_SIGNAL_STATUS = 128
"""A shell whose command is ended by signal 9 ends with status 137."""


class _End(NamedTuple):
    """How the last command that ran has ended: -9 for signal 9. ``command`` is its number, 0 where that is unknown."""

    status: int
    command: int


class ShellTool:
    """``cmds`` or ``command``, ``env``, ``input``/``args``, ``cwd``, ``shell``."""

    spec = built_in("shell", at_once=AT_ONCE)

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """The result is ``{exit_code, stdout, stderr}``, on an error too. Any exit status but 0 is an error."""
        credential = None if request.auth is None else await context.credential(request.auth)
        call = shell_call(request, credential)
        stdout, stderr = Captured(MAX_OUTPUT + CUT_MARGIN), Captured(MAX_OUTPUT + CUT_MARGIN)
        end = _end(await run_task(_CHILD, json.dumps(call._asdict()).encode(), stdout, stderr))
        code = end.status if end.status >= 0 else _FIRST_SIGNAL_STATUS - end.status
        result: dict[str, Json] = {
            "exit_code": code,
            "stdout": _shortened(stdout, context),
            "stderr": _shortened(stderr, context),
        }
        meta = _cut_told(stdout=stdout, stderr=stderr)
        if code == 0:
            return Outcome("ok", result, meta=meta)
        said = _last_lines(stderr, context) or _last_lines(stdout, context)
        message = f"{_failed(end, call)}: {said}" if said else _failed(end, call)
        return Outcome("error", result, ErrorInfo("exception", message, code=str(code)), meta)


def _end(ended: ProcessExit) -> _End:
    """Without a valid answer, the commands have ended the process that ran them, or written to its pipe.

    Raises ConfigError.
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


def _failed(end: _End, call: ShellCall) -> str:
    many = len(call.commands)
    which = f"command {end.command} of {many}" if many > 1 and end.command else "the command"
    if end.status < 0:
        return f"{which} was ended by {_signal(-end.status)}"
    name = _signal(end.status - _FIRST_SIGNAL_STATUS, "")
    return f"{which} ended with status {end.status}{f', as after {name}' if name else ''}"


def _signal(number: int, unknown: str = "a signal") -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return unknown


def _shortened(captured: Captured, context: ToolContext) -> str:
    text = captured.text
    return text if captured.is_whole else context.cut(text, len(text) - CUT_MARGIN)


def _cut_told(**streams: Captured) -> dict[str, Json]:
    told = [
        f"{name} has {one.size:,} bytes, and the result only the first {MAX_OUTPUT:,} of them"
        for name, one in streams.items()
        if not one.is_whole
    ]
    return {"warning": "; ".join(told)} if told else {}


def _last_lines(captured: Captured, context: ToolContext) -> str:
    """Masked before they are shortened, as what is left of a secret that a cut divides is not found any more."""
    lines = [line.rstrip() for line in _masked_end(captured, context).splitlines() if line.strip()]
    return " | ".join(lines[-_END_LINES:])[-_END_CHARS:]


def _masked_end(captured: Captured, context: ToolContext) -> str:
    text = captured.text if captured.is_whole else captured.end.decode("utf-8", "replace")
    masked = context.cut(text, len(text))
    return masked if captured.is_whole else masked[len(context.cut(text, CUT_MARGIN)) :]


TOOL = ShellTool()
