"""Reports which features of the sandbox work on this machine, from a sandboxed process that runs nothing."""

from __future__ import annotations

import json
import os
import sys

CONFINED_TOOLS = frozenset({"python", "shell"})
"""The tools whose tasks are sandboxed."""


def main() -> None:
    """Report the restrictions of this process. Called in the process that becomes the supervisor of the task."""
    from noetl_activities.isolation.supervisor import start_task

    _, restrictions = start_task()
    with os.fdopen(int(sys.argv[1]), "w") as out:
        json.dump({"active": restrictions.active, "missing": restrictions.missing}, out)


async def describe_isolation() -> str:
    """Return the line that a worker logs when it starts: ``tasks: own account, landlock 7, ...; gaps: ...``."""
    from noetl_activities.isolation.processes import run_task

    process_exit = await run_task(__name__, b"", lambda _stream, _text: None)
    if not process_exit.response:
        reason = process_exit.output_start.strip().splitlines()[-1:] or [f"status {process_exit.status}"]
        return f"tasks cannot be confined here, and fail: {reason[0]}"
    report = json.loads(process_exit.response)
    missing = f"; gaps: {', '.join(report['missing'])}" if report["missing"] else ""
    return f"tasks: {', '.join(report['active'])}{missing}"
