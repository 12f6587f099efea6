"""Calls of playbooks in random playbooks, and what becomes of them: some are not waited for.

They have a random order of their own, so that a playbook without them is what it was.
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
    """The playbook that calls others in place of some tools; a frame cannot."""
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
    """What a called playbook comes to, and whether it is waited for: else that it has started is all that is known."""
    if call.config.get("wait", True) is False:
        return {"status": "ok", "result": {"execution_id": "8", "workflow_id": "sim"}}, False
    return answers.answer(call.kind, call.key, 1), True
