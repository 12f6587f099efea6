"""Adds calls of playbooks to random playbooks, some with ``wait: false``; gives their outcomes, checks their input.

Each passes on the list of the request, which is stored in most runs.

They have random numbers of their own, so that playbooks without them do not change.
"""

from __future__ import annotations

import json
import random
from typing import Any

from dev.simulate.run_trace import Finding
from dev.simulate.simulated_values import SimulatedValues
from dev.simulate.tool_outcomes import ToolOutcomes
from noetl_compiler.graph.contents import with_values_at
from noetl_temporal.machine.call import PlainOutcome, ToolCall

__all__ = ["check_input", "outcome_of", "with_sub_playbooks"]

PROBABILITY = 0.15
INPUT = {
    "passed": {"rows": "{{ workload.rows }}", "count": "{{ payload.rows | length }}"},
    "again": "{{ payload.rows }}",
}
PATHS = ("sim/called", "{{ 'sim/' ~ 'called' }}")


def with_sub_playbooks(text: str, seed: int) -> str:
    """Return the playbook with calls of playbooks instead of some tools; frames keep theirs."""
    rng = random.Random(f"{seed}/sub-playbooks")
    if rng.random() >= PROBABILITY or not text.startswith("{"):
        return text
    document: dict[str, Any] = json.loads(text)
    for step in document.get("workflow", []):
        is_framed = "frame" in str(step.get("loop")) and "cursor" not in str(step.get("loop"))
        for task in step["tool"] if isinstance(step.get("tool"), list) and not is_framed else ():
            if task["kind"] in ("noop", "playbook") and rng.random() < 0.6:
                task |= {"kind": "playbook", "path": rng.choice(PATHS), "input": INPUT}
                if rng.random() < 0.5:
                    task["wait"] = rng.choice((False, True, "{{ false }}"))
    return json.dumps(document, ensure_ascii=False, indent=1)


def check_input(call: ToolCall, rows: int, values: SimulatedValues) -> None:
    """Check that the called playbook gets the list of the request, which has this many rows. Raises Finding."""
    stored = {place: values.load(reference) for place, reference in call.stored_input.items()}
    passed: dict[str, Any] = with_values_at(call.input, stored)
    expected = {"passed": {"rows": list(range(rows)), "count": rows}, "again": list(range(rows))}
    if not INPUT.keys().isdisjoint(passed) and {name: passed.get(name) for name in INPUT} != expected:
        raise Finding("a called playbook gets another list", f"{call.id}: {passed!r:.500}")


def outcome_of(call: ToolCall, tool_outcomes: ToolOutcomes) -> tuple[PlainOutcome, bool]:
    """Return the outcome of a called playbook and whether the caller waits for it; if not, the outcome is its start."""
    if call.config.get("wait", True) is False:
        return {"status": "ok", "result": {"execution_id": "8", "workflow_id": "sim"}}, False
    return tool_outcomes.outcome(call.kind, call.key, 1), True
