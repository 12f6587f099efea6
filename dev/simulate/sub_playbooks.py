"""Adds calls of playbooks to random playbooks, some with ``wait: false``, and gives their outcomes.

They have random numbers of their own, so that playbooks without them do not change.
"""

from __future__ import annotations

import json
import random
from typing import Any

from dev.simulate.answers import Answers
from noetl_temporal.machine.call import PlainOutcome, ToolCall

__all__ = ["outcome_of", "with_sub_playbooks"]

LIKELY = 0.15
PATHS = ("sim/called", "{{ 'sim/' ~ 'called' }}")


def with_sub_playbooks(text: str, seed: int) -> str:
    """Return the playbook with calls of playbooks instead of some tools; frames keep theirs."""
    chance = random.Random(f"{seed}/sub-playbooks")
    if chance.random() >= LIKELY or not text.startswith("{"):
        return text
    made: dict[str, Any] = json.loads(text)
    for step in made.get("workflow", []):
        is_framed = "frame" in str(step.get("loop")) and "cursor" not in str(step.get("loop"))
        for task in step["tool"] if isinstance(step.get("tool"), list) and not is_framed else ():
            if task["kind"] in ("noop", "playbook") and chance.random() < 0.6:
                task |= {"kind": "playbook", "path": chance.choice(PATHS)}
                if chance.random() < 0.5:
                    task["wait"] = chance.choice((False, True, "{{ false }}"))
    return json.dumps(made, ensure_ascii=False, indent=1)


def outcome_of(call: ToolCall, answers: Answers) -> tuple[PlainOutcome, bool]:
    """Return the outcome of a called playbook and whether the caller waits for it; if not, the outcome is its start."""
    if call.config.get("wait", True) is False:
        return {"status": "ok", "result": {"execution_id": "8", "workflow_id": "sim"}}, False
    return answers.answer(call.kind, call.key, 1), True
