"""What a simulated tool answers: a function of seed, task and the count of its calls alone, so that every host of the
same playbook gets the same answers.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from noetl_temporal.machine.call import Outcome, ToolCall

__all__ = ["QUIET_AFTER", "Answers"]

QUIET_AFTER = 12
"""Calls of one task (of one item) after which it answers well and asks for nothing more, so that every run ends."""

KINDS = ("server_error", "timeout", "connection", "auth", "rate_limit", "exception")
ODD_RESULTS: tuple[Any, ...] = (None, [], "text", 7, {"more": True}, {"items": "none"}, {"n": "x", "wait": "5s"})


class Answers:
    """``failing`` is how likely an attempt ends in an error, ``odd`` how likely a result has another shape."""

    def __init__(self, seed: int | str) -> None:
        mood = random.Random(f"{seed}/mood")
        self._seed = seed
        self.failing = mood.choice((0.0, 0.05, 0.2, 0.5))
        self.odd = mood.choice((0.0, 0.0, 0.05))
        self._calls: Counter[str] = Counter()

    def began(self, call: ToolCall) -> str:
        """Count a call; the key under which its attempts are answered."""
        task = f"{call.step}/{call.task}/{call.iteration}"
        self._calls[task] += 1
        return f"{task}/{self._calls[task]}"

    def answer(self, call: ToolCall, key: str, attempt: int) -> Outcome:
        """The outcome of one attempt."""
        if call.store is not None:
            return call.store
        chance = random.Random(f"{self._seed}/{key}/{attempt}")
        quiet = int(key.rsplit("/", 1)[1]) > QUIET_AFTER
        if not quiet and chance.random() < self.failing:
            return _error(chance, call.kind)
        body: dict[str, Any] = {
            "n": chance.randint(0, 99),
            "more": not quiet and chance.random() < 0.4,
            "flag": not quiet and chance.random() < 0.4,
            "wait": chance.choice((0.1, 1, "2s")),
            "items": [chance.randint(0, 9)] * chance.randint(0, 3),
        }
        found: Any = chance.choice(ODD_RESULTS) if not quiet and chance.random() < self.odd else body
        return _ok(call.kind, found)


def _ok(kind: str, body: Any) -> Outcome:
    if kind != "http":
        return {"status": "ok", "result": body}
    result = {"status_code": 200, "headers": {}, "url": "http://api.test/x", "elapsed": 0.1, "data": body}
    return {"status": "ok", "result": result, "http": {"status": 200, "headers": {}}}


def _error(chance: random.Random, kind: str) -> Outcome:
    what = chance.choice(KINDS)
    error = {"kind": what, "message": f"{what} of the simulation", "code": None, "retryable": what != "auth"}
    status = {"server_error": 503, "auth": 401, "rate_limit": 429}.get(what)
    if kind != "http" or status is None:
        return {"status": "error", "error": error}
    return {"status": "error", "error": {**error, "status": status}, "http": {"status": status, "headers": {}}}
