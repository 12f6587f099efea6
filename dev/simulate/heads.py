"""Adds to some random playbooks a final step with another name, a workbook, or a priority.

Each has random numbers of its own, so that playbooks without them do not change.
"""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["with_final_step", "with_priority", "with_workbook"]

LIKELY = 0.1
IN_WORKBOOK = ("kind", "url", "code", "input", "spec", "sink", "set")
"""The keys of a workbook task besides its name."""


def with_final_step(text: str, seed: int) -> str:
    """Return the playbook with another name for its ``end``."""
    made = _changed(text, f"{seed}/final step")
    if made is None or not any(step["step"] == "end" for step in made["workflow"]):
        return text
    made["executor"].setdefault("spec", {})["final_step"] = "the last"
    for step in made["workflow"]:
        step["step"] = "the last" if step["step"] == "end" else step["step"]
    return _text(made)


def with_workbook(text: str, seed: int) -> str:
    """Return the playbook with the tasks of some steps in its workbook; frames keep theirs."""
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
    """Return the parsed playbook if it is chosen for the change, else None."""
    if random.Random(order).random() >= LIKELY or not text.startswith("{"):
        return None
    made: dict[str, Any] = json.loads(text)
    return made if made.get("apiVersion") == "noetl.io/v10" and "executor" in made else None


def _text(made: dict[str, Any]) -> str:
    return json.dumps(made, ensure_ascii=False, indent=1)
