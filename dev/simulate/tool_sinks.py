"""Adds sinks of http, python and DuckDB to random playbooks, beside those of Postgres.

They have random numbers of their own, so that playbooks without them do not change.
"""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["with_tool_sinks"]

LIKELY = 0.12
KINDS: dict[str, dict[str, Any]] = {
    "http": {"url": "http://api.test/rows"},
    "python": {"code": "def main(n):\n    pass"},
    "duckdb": {"table": "t0", "database": "sim.duckdb"},
}


def with_tool_sinks(text: str, seed: int) -> str:
    """The playbook with sinks that are calls of other tools, before or after the sinks that it has."""
    chance = random.Random(f"{seed}/tool sinks")
    if chance.random() >= LIKELY or not text.startswith("{"):
        return text
    made: dict[str, Any] = json.loads(text)
    for step in made.get("workflow", []):
        is_framed = "max_rows" in str(step.get("loop")) or "row_concurrency" in str(step.get("loop"))
        for task in step["tool"] if isinstance(step.get("tool"), list) and not is_framed else ():
            if task["kind"] in ("noop", "http", "python") and chance.random() < 0.4:
                _add_sink(task, chance)
    return json.dumps(made, ensure_ascii=False, indent=1)


def _add_sink(task: dict[str, Any], chance: random.Random) -> None:
    kind = chance.choice(sorted(KINDS))
    sink = {"tool": kind, "data": {"n": "{{ output.data.n }}"}, **KINDS[kind]}
    if chance.random() < 0.4:
        sink["level"] = chance.choice(("attempt", "task"))
    had: Any = task.get("sink", [])
    sinks: list[Any] = [had] if isinstance(had, dict) else had
    task["sink"] = [sink, *sinks] if chance.random() < 0.5 else [*sinks, sink]
