"""Adds loops over a cursor to random playbooks: steps claim rows of a table instead of using the items of a list.

They have random numbers of their own, so that playbooks without cursors do not change.
"""

from __future__ import annotations

import json
import random
from typing import Any

from dev.simulate.tasks import Chance, random_amount, random_seconds

__all__ = ["random_cursor_loop", "with_cursors"]

LIKELY = 0.2
"""The probability that some steps of a playbook claim rows."""

TABLES = ("jobs", "jobs", "mails")
"""Two steps, or two runs of one, may claim rows of the same table."""


def with_cursors(text: str, seed: int) -> str:
    """The playbook with cursors in some of its steps; those of playbooks with regions are in region_cursors.py."""
    source = random.Random(f"{seed}/cursors")
    if source.random() >= LIKELY or not text.startswith("{"):
        return text
    made: dict[str, Any] = json.loads(text)
    chance = Chance(source)
    steps: list[dict[str, Any]] = made.get("workflow", [])
    if any("end_loop" in step.get("spec", {}) for step in steps):
        return text
    for step in steps:
        if step["step"] != "end" and isinstance(step.get("tool"), list) and chance.once(0.5):
            step["loop"] = random_cursor_loop(chance)
    return json.dumps(made, ensure_ascii=False, indent=1)


def random_cursor_loop(chance: Chance) -> dict[str, Any]:
    """A loop that claims rows."""
    spec: dict[str, Any] = {"mode": "cursor", "frame": _random_frame(chance)}
    if chance.once(0.8):
        spec["max_in_flight"] = random_amount(chance, 1, 4)
    if chance.once(0.2):
        spec["on_error"] = "fail_fast"
    if chance.once(0.3):
        spec["policy"] = {"failure": {"mode": "best_effort"}}
    if chance.once(0.1):
        spec["timeout"] = random_seconds(chance, 10)
    made: dict[str, Any] = {"cursor": _random_cursor(chance), "iterator": "item", "spec": spec}
    if chance.once(0.3):
        made["limit"] = random_amount(chance, 0, 8)
    return made


def _random_frame(chance: Chance) -> dict[str, Any]:
    made: dict[str, Any] = {"lease_seconds": chance.of(1, 5, 30, 120, random_seconds(chance, 30))}
    if chance.once(0.8):
        made["max_rows"] = random_amount(chance, 1, 5)
    if chance.once(0.6):
        made["row_concurrency"] = random_amount(chance, 1, 3)
    if chance.once(0.3):
        made["heartbeat_seconds"] = random_seconds(chance, 5)
    if chance.once(0.5):
        made["max_attempts"] = random_amount(chance, 1, 3)
    if chance.once(0.15):
        made["process"] = "frame"
    return made


def _random_cursor(chance: Chance) -> dict[str, Any]:
    """Statements that tables.py understands, in place of SQL."""
    table = chance.of(*TABLES)
    made: dict[str, Any] = {"kind": "postgres", "auth": "pg"}
    has_ack = chance.once(0.9)
    word = "CLAIM" if has_ack else "TAKE"
    made["claim"] = f"{word} {table} {{{{ lease.token }}}} {{{{ lease.seconds }}}} {{{{ __frame_max_rows }}}}"
    if chance.once(0.8):
        made["renew"] = f"RENEW {table} {{{{ row }}}} {{{{ lease.token }}}} {{{{ lease.seconds }}}}"
    if has_ack:
        made["ack"] = f"ACK {table} {{{{ row }}}} {{{{ lease.token }}}} {{{{ output.status }}}}"
    if chance.once(0.8):
        made["release"] = f"RELEASE {table} {{{{ row }}}} {{{{ lease.token }}}}"
        made["on_row_error"] = chance.of("ack", "release")
    return made
