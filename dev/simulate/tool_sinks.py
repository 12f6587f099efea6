"""Adds sinks of http, python and DuckDB to random playbooks, beside those of Postgres.

They have random numbers of their own, so that playbooks without them do not change.
"""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["with_tool_sinks"]

PROBABILITY = 0.12
KINDS: dict[str, dict[str, Any]] = {
    "http": {"url": "http://api.test/rows"},
    "python": {"code": "def main(n):\n    pass"},
    "duckdb": {"table": "t0", "database": "sim.duckdb"},
}


def with_tool_sinks(text: str, seed: int) -> str:
    """The playbook with sinks that are calls of other tools, before or after the sinks that it has."""
    rng = random.Random(f"{seed}/tool sinks")
    if rng.random() >= PROBABILITY or not text.startswith("{"):
        return text
    document: dict[str, Any] = json.loads(text)
    for step in document.get("workflow", []):
        is_framed = "max_rows" in str(step.get("loop")) or "row_concurrency" in str(step.get("loop"))
        for task in step["tool"] if isinstance(step.get("tool"), list) and not is_framed else ():
            if task["kind"] in ("noop", "http", "python") and rng.random() < 0.4:
                _add_sink(task, rng)
    return json.dumps(document, ensure_ascii=False, indent=1)


def _add_sink(task: dict[str, Any], rng: random.Random) -> None:
    kind = rng.choice(sorted(KINDS))
    sink = {"tool": kind, "data": {"n": "{{ output.data.n }}"}, **KINDS[kind]}
    if rng.random() < 0.4:
        sink["level"] = rng.choice(("attempt", "task"))
    sink_or_sinks: Any = task.get("sink", [])
    sinks: list[Any] = [sink_or_sinks] if isinstance(sink_or_sinks, dict) else sink_or_sinks
    task["sink"] = [sink, *sinks] if rng.random() < 0.5 else [*sinks, sink]
