"""Adds loops over a cursor to random playbooks that repeat several steps, or are inside a loop over several steps.

They have random numbers of their own, so that playbooks without them do not change.
"""

from __future__ import annotations

import json
import random
from typing import Any

from dev.simulate.cursors import random_cursor_loop
from dev.simulate.tasks import RandomChoices

__all__ = ["with_region_cursors"]

PROBABILITY = 0.4
"""The probability that some loops claim rows, in a playbook with loops over steps or with routes of items."""


def with_region_cursors(text: str, seed: int) -> str:
    """The playbook in which some loops over steps, loops with routes of items, and steps inside claim rows."""
    source = random.Random(f"{seed}/region cursors")
    if source.random() >= PROBABILITY or not text.startswith("{"):
        return text
    document: dict[str, Any] = json.loads(text)
    rng = RandomChoices(source)
    steps: list[dict[str, Any]] = document.get("workflow", [])
    ends = {step["spec"]["end_loop"] for step in steps if "end_loop" in step.get("spec", {})}
    if not ends and not any("next" in step.get("loop", {}) for step in steps):
        return text
    for step in steps:
        is_around = step["step"] in ends or "next" in step.get("loop", {})
        is_inside = bool(ends) and step["step"] != "end" and isinstance(step.get("tool"), list)
        if (is_around and rng.occurs(0.5)) or (is_inside and rng.occurs(0.25)):
            _claim_rows(rng, step)
    return json.dumps(document, ensure_ascii=False, indent=1)


def _claim_rows(rng: RandomChoices, step: dict[str, Any]) -> None:
    before: dict[str, Any] = step.get("loop", {})
    step["loop"] = random_cursor_loop(rng) | {key: before[key] for key in ("next", "iterator") if key in before}
