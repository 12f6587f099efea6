"""Adds to some random playbooks a final step with another name, a workbook, or a priority.

Each has random numbers of its own, so that playbooks without them do not change.
"""

from __future__ import annotations

import json
import random
from typing import Any

__all__ = ["with_final_step", "with_priority", "with_workbook"]

PROBABILITY = 0.1
IN_WORKBOOK = ("kind", "url", "code", "input", "spec", "sink", "set")
"""The keys of a workbook task besides its name."""


def with_final_step(text: str, seed: int) -> str:
    """Return the playbook with another name for its ``end``."""
    document = _chosen_document(text, f"{seed}/final step")
    if document is None or not any(step["step"] == "end" for step in document["workflow"]):
        return text
    document["executor"].setdefault("spec", {})["final_step"] = "the last"
    for step in document["workflow"]:
        step["step"] = "the last" if step["step"] == "end" else step["step"]
    return _text(document)


def with_workbook(text: str, seed: int) -> str:
    """Return the playbook with the tasks of some steps in its workbook; frames keep theirs."""
    document = _chosen_document(text, f"{seed}/workbook")
    if document is None:
        return text
    workbook: list[dict[str, Any]] = []
    for step in document["workflow"]:
        tasks: list[dict[str, Any]] = step["tool"] if isinstance(step.get("tool"), list) else []
        if len(tasks) == 1 and tasks[0]["kind"] in ("noop", "http", "python"):
            name = f"work {len(workbook)}"
            workbook.append({"name": name, "tool": {key: tasks[0][key] for key in IN_WORKBOOK if key in tasks[0]}})
            step["tool"] = {"kind": "workbook", "name": name}
    return _text(document | {"workbook": workbook}) if workbook else text


def with_priority(text: str, seed: int) -> str:
    """The playbook with a priority, which changes no command of its run."""
    document = _chosen_document(text, f"{seed}/priority")
    if document is None:
        return text
    document["metadata"] |= {"priority": 2, "fairness_key": "sim", "fairness_weight": 1.5}
    return _text(document)


def _chosen_document(text: str, rng_seed: str) -> dict[str, Any] | None:
    """Return the parsed playbook if it is chosen for the change, else None."""
    if random.Random(rng_seed).random() >= PROBABILITY or not text.startswith("{"):
        return None
    document: dict[str, Any] = json.loads(text)
    return document if document.get("apiVersion") == "noetl.io/v10" and "executor" in document else None


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, ensure_ascii=False, indent=1)
