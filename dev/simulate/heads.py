"""What stands at the head of some random playbooks: a final step by another name, a workbook, a priority.

Each has a random order of its own, so that a playbook without them is what it was.
"""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["with_final_step", "with_priority", "with_workbook"]

LIKELY = 0.1
IN_WORKBOOK = ("kind", "url", "code", "input", "spec", "sink", "set")
"""What a task of a workbook has besides its name."""


def with_final_step(text: str, seed: int) -> str:
    """The playbook whose ``end`` has another name."""
    made = _changed(text, f"{seed}/final step")
    if made is None or not any(step["step"] == "end" for step in made["workflow"]):
        return text
    made["executor"].setdefault("spec", {})["final_step"] = "the last"
    for step in made["workflow"]:
        step["step"] = "the last" if step["step"] == "end" else step["step"]
    return _text(made)


def with_workbook(text: str, seed: int) -> str:
    """The playbook whose tasks stand in its workbook where their step has one that is no part of a frame."""
    made = _changed(text, f"{seed}/workbook")
    if made is None:
        return text
    workbook: list[dict[str, Any]] = []
    for step in made["workflow"]:
        tasks: list[dict[str, Any]] = step["tool"] if isinstance(step.get("tool"), list) else []
        if len(tasks) == 1 and tasks[0]["kind"] in ("noop", "http", "python"):
            name = f"work {len(workbook)}"
            workbook.append({"name": name, "tool": {key: tasks[0][key] for key in IN_WORKBOOK if key in tasks[0]}})
            step["tool"] = {"kind": "workbook", "name": name}
    return _text(made | {"workbook": workbook}) if workbook else text


def with_priority(text: str, seed: int) -> str:
    """The playbook with a priority, which changes no command of its run."""
    made = _changed(text, f"{seed}/priority")
    if made is None:
        return text
    made["metadata"] |= {"priority": 2, "fairness_key": "sim", "fairness_weight": 1.5}
    return _text(made)


def _changed(text: str, order: str) -> dict[str, Any] | None:
    """The playbook, if it is to have the part."""
    if random.Random(order).random() >= LIKELY or not text.startswith("{"):
        return None
    made: dict[str, Any] = json.loads(text)
    return made if made.get("apiVersion") == "noetl.io/v10" and "executor" in made else None


def _text(made: dict[str, Any]) -> str:
    return json.dumps(made, ensure_ascii=False, indent=1)
