"""The outcomes of simulated tools: a function of the seed and the key of the call, so that every host of the same
playbook gets the same outcomes.
"""

from __future__ import annotations

import random
from typing import Any

from noetl_temporal.machine.call import PlainOutcome

__all__ = ["QUIET_AFTER", "Answers"]

QUIET_AFTER = 12
"""The number of calls in a step run (for one item) after which all succeed and request no more, so every run ends."""

KINDS = ("server_error", "timeout", "connection", "auth", "rate_limit", "exception")
ODD_RESULTS: tuple[Any, ...] = (None, [], "text", 7, {"more": True}, {"items": "none"}, {"n": "x", "wait": "5s"})


class Answers:
    """``failing`` is how likely an attempt ends in an error, ``odd`` how likely a result has another shape."""

    def __init__(self, seed: int) -> None:
        mood = random.Random(f"{seed}/mood")
        self._seed = seed
        self.failing = mood.choice((0.0, 0.05, 0.2, 0.5))
        self.odd = mood.choice((0.0, 0.0, 0.05))

    def answer(self, kind: str, key: str, attempt: int) -> PlainOutcome:
        """Return the outcome of one attempt of the call with this key, in any execution."""
        place = key.partition("/")[2]
        chance = random.Random(f"{self._seed}/{place}/{attempt}")
        quiet = int(place.rpartition("/")[2]) > QUIET_AFTER
        if not quiet and chance.random() < self.failing:
            return _error(chance, kind)
        body: dict[str, Any] = {
            "n": chance.randint(0, 99),
            "more": not quiet and chance.random() < 0.4,
            "flag": not quiet and chance.random() < 0.4,
            "wait": chance.choice((0.1, 1, "2s")),
            "items": [chance.randint(0, 9)] * chance.randint(0, 3),
        }
        result: Any = chance.choice(ODD_RESULTS) if not quiet and chance.random() < self.odd else body
        return _ok(kind, result)


def _ok(kind: str, body: Any) -> PlainOutcome:
    if kind != "http":
        return {"status": "ok", "result": body}
    result: Any = {"status_code": 200, "headers": {}, "url": "http://api.test/x", "elapsed": 0.1, "data": body}
    return {"status": "ok", "result": result, "http": {"status": 200, "headers": {}}}


def _error(chance: random.Random, kind: str) -> PlainOutcome:
    what = chance.choice(KINDS)
    error = {"kind": what, "message": f"{what} of the simulation", "code": None, "retryable": what != "auth"}
    status = {"server_error": 503, "auth": 401, "rate_limit": 429}.get(what)
    if kind != "http" or status is None:
        return {"status": "error", "error": error}
    return {"status": "error", "error": {**error, "status": status}, "http": {"status": status, "headers": {}}}
