"""Runs the commands of one shell task in its own process, which isolation/ starts and sandboxes. Uses only the standard
library, and little of it, because every call pays for its imports.

The call is ``{shell, commands, environment, cwd}`` as JSON. Writes ``{status, command}`` to the descriptor named by
argv[1]: the exit status of the last command (-9 for signal 9), and its number, from 1. If a command cannot be started,
writes ``{error}``, a message. Output of the commands goes to stdout and stderr.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from noetl_activities.isolation.supervisor import start_task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that Python ignores. If the commands ignored them too, ``yes | head`` would report an error."""


def main() -> None:
    """Run the commands and write the report. Called in the process that becomes the supervisor of the task."""
    data, _ = start_task()
    out = os.fdopen(int(sys.argv[1]), "w")
    os.set_inheritable(out.fileno(), False)
    out.write(json.dumps(run(json.loads(data))))
    out.close()


def run(call: dict[str, Any]) -> dict[str, Any]:
    """Run the commands one after the other, until one fails."""
    environment = {**os.environ, **call["environment"]}
    try:
        os.chdir(call["cwd"] or ".")
    except OSError as error:
        return {"error": f"cannot run in the folder {call['cwd']}: {error.strerror}"}
    for number, command in enumerate(call["commands"], 1):
        try:
            status = exit_status(call["shell"], command, environment)
        except FileNotFoundError:
            return {"error": f"{call['shell']} is not installed on the machine of the worker"}
        except OSError as error:
            return {"error": f"cannot run {call['shell']}: {error.strerror}"}
        if status:
            return {"status": status, "command": number}
    return {"status": 0, "command": len(call["commands"])}


def exit_status(shell: str, command: str, environment: dict[str, str]) -> int:
    """Run a command and return its exit status, -9 for signal 9."""
    pid = os.posix_spawnp(shell, [shell, "-c", command], environment, setsigdef=_IGNORED_BY_PYTHON)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
