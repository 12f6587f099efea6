"""Writes the output of a task to the log of its worker.

The outcome contains it too (``meta.stdout`` of python, ``stdout`` and ``stderr`` of a shell's result), without the
secrets of the call. Every line is indented, so that it
cannot be mistaken for a line of the log itself.
"""

from __future__ import annotations

import logging
from typing import cast

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import PlainOutcome, ToolCall

__all__ = ["log_printed"]

MOST_CHARACTERS = 8000
"""Of one attempt: a loop may have a million items, and nobody removes old lines of a log."""

_log = logging.getLogger(__name__)
"""Of level INFO, for which cli/logs.py opens it."""


def log_printed(call: ToolCall, attempt: int, outcome: PlainOutcome) -> None:
    """Log what the attempt has printed, if it has; ``outcome`` is without secrets."""
    printed = _printed(call, outcome)
    if not printed.strip():
        return
    more = len(printed) - MOST_CHARACTERS
    lines = [*printed[:MOST_CHARACTERS].splitlines(), *([f"... ({more:,} more characters)"] if more > 0 else [])]
    indented = "".join(f"\n  | {line}" for line in lines)
    _log.info("execution %s, %s, attempt %d printed:%s", call.execution_id, _name(call), attempt, indented)


def _printed(call: ToolCall, outcome: PlainOutcome) -> str:
    meta: dict[str, Json] = outcome.get("meta") or {}
    texts: list[Json] = [meta.get("stdout")]
    result: Json = outcome.get("result")
    if call.kind == "shell" and isinstance(result, dict):
        streams = cast("dict[str, Json]", result)
        texts += [streams.get("stdout"), streams.get("stderr")]
    return "\n".join(text.removesuffix("\n") for text in texts if isinstance(text, str) and text)


def _name(call: ToolCall) -> str:
    """``step fetch, task parse, item 2, page 3``; items count from 0, as in the event log."""
    parts = [f"step {call.step}"]
    if call.task not in (call.step, f"{call.step}_task"):  # the name of a step's only task
        parts.append(f"task {call.task}")
    if call.iteration is not None:
        parts.append(f"item {call.iteration}")
    if call.page is not None:
        parts.append(f"page {call.page}")
    return ", ".join(parts)
