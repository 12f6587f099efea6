"""Finds out which sandbox features work on this machine, by confining a process that runs nothing."""

from __future__ import annotations

import json
import os
import sys

CONFINED = frozenset({"python", "shell"})
"""The tools whose tasks are sandboxed."""


def main() -> None:
    """Run in the child process."""
    from noetl_activities.isolation.supervisor import start_task

    _, restrictions = start_task()
    with os.fdopen(int(sys.argv[1]), "w") as out:
        json.dump({"held": restrictions.held, "missing": restrictions.missing}, out)


async def describe_isolation() -> str:
    """Describe the isolation of tasks in one line for a worker's log.

    For example ``tasks: own account, landlock 7, ...; not held: ...``.
    """
    from noetl_activities.isolation.processes import run_task

    ended = await run_task(__name__, b"", lambda _stream, _text: None)
    if not ended.answer:
        reason = ended.printed.strip().splitlines()[-1:] or [f"status {ended.status}"]
        return f"tasks cannot be confined here, and fail: {reason[0]}"
    report = json.loads(ended.answer)
    missing = f"; not held: {', '.join(report['missing'])}" if report["missing"] else ""
    return f"tasks: {', '.join(report['held'])}{missing}"
