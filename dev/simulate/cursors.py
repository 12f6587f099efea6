"""Adds loops over a cursor to random playbooks: steps claim rows of a table instead of using the items of a list.

They have random numbers of their own, so that playbooks without cursors do not change.
"""

from __future__ import annotations

import json
import random
from typing import Any

from dev.simulate.tasks import RandomChoices, random_amount, random_seconds

__all__ = ["random_cursor_loop", "with_cursors"]

PROBABILITY = 0.2
"""The probability that some steps of a playbook claim rows."""

TABLES = ("jobs", "jobs", "mails")
"""Two steps, or two runs of one, may claim rows of the same table."""


def with_cursors(text: str, seed: int) -> str:
    """The playbook with cursors in some of its steps; those of playbooks with regions are in region_cursors.py."""
    source = random.Random(f"{seed}/cursors")
    if source.random() >= PROBABILITY or not text.startswith("{"):
        return text
    document: dict[str, Any] = json.loads(text)
    rng = RandomChoices(source)
    steps: list[dict[str, Any]] = document.get("workflow", [])
    if any("end_loop" in step.get("spec", {}) for step in steps):
        return text
    for step in steps:
        if step["step"] != "end" and isinstance(step.get("tool"), list) and rng.occurs(0.5):
            step["loop"] = random_cursor_loop(rng)
    return json.dumps(document, ensure_ascii=False, indent=1)


def random_cursor_loop(rng: RandomChoices) -> dict[str, Any]:
    """A loop that claims rows."""
    spec: dict[str, Any] = {"mode": "cursor", "frame": _random_frame(rng)}
    if rng.occurs(0.8):
        spec["max_in_flight"] = random_amount(rng, 1, 4)
    if rng.occurs(0.2):
        spec["on_error"] = "fail_fast"
    if rng.occurs(0.3):
        spec["policy"] = {"failure": {"mode": "best_effort"}}
    if rng.occurs(0.1):
        spec["timeout"] = random_seconds(rng, 10)
    loop: dict[str, Any] = {"cursor": _random_cursor(rng), "iterator": "item", "spec": spec}
    if rng.occurs(0.3):
        loop["limit"] = random_amount(rng, 0, 8)
    return loop


def _random_frame(rng: RandomChoices) -> dict[str, Any]:
    frame: dict[str, Any] = {"lease_seconds": rng.of(1, 5, 30, 120, random_seconds(rng, 30))}
    if rng.occurs(0.8):
        frame["max_rows"] = random_amount(rng, 1, 5)
    if rng.occurs(0.6):
        frame["row_concurrency"] = random_amount(rng, 1, 3)
    if rng.occurs(0.3):
        frame["heartbeat_seconds"] = random_seconds(rng, 5)
    if rng.occurs(0.5):
        frame["max_attempts"] = random_amount(rng, 1, 3)
    if rng.occurs(0.15):
        frame["process"] = "frame"
    return frame


def _random_cursor(rng: RandomChoices) -> dict[str, Any]:
    """Statements that tables.py understands, in place of SQL."""
    table = rng.of(*TABLES)
    cursor: dict[str, Any] = {"kind": "postgres", "auth": "pg"}
    has_ack = rng.occurs(0.9)
    word = "CLAIM" if has_ack else "TAKE"
    cursor["claim"] = f"{word} {table} {{{{ lease.token }}}} {{{{ lease.seconds }}}} {{{{ __frame_max_rows }}}}"
    if rng.occurs(0.8):
        cursor["renew"] = f"RENEW {table} {{{{ row }}}} {{{{ lease.token }}}} {{{{ lease.seconds }}}}"
    if has_ack:
        cursor["ack"] = f"ACK {table} {{{{ row }}}} {{{{ lease.token }}}} {{{{ output.status }}}}"
    if rng.occurs(0.8):
        cursor["release"] = f"RELEASE {table} {{{{ row }}}} {{{{ lease.token }}}}"
        cursor["on_row_error"] = rng.of("ack", "release")
    return cursor
