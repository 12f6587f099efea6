"""Runs of playbooks of the case dialect, whose tasks return given outcomes."""

from __future__ import annotations

from typing import Any

from noetl_temporal.machine.call import ToolCall

from .activity import Activity
from .driver import Answer, Run, run_text

__all__ = ["DONE", "HEAD", "echo", "run", "steps"]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n"
DONE = "  - {step: other, tool: {kind: noop}, args: {n: null}}\n  - {step: end, tool: {kind: noop}}\n"


def echo(call: ToolCall) -> Any:
    return call.config.get("result")


def run(workflow: str, answer: Answer = echo, **workload: Any) -> tuple[Run, Activity]:
    activity = Activity(answer)
    return run_text(f"{HEAD}workload: {workload}\nworkflow:\n{workflow}", activity), activity


def steps(finished: Run) -> list[str]:
    return [event.node for event in finished.events if event.type in ("step.done", "step.failed", "step.skipped")]
