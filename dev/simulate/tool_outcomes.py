"""The outcomes of simulated tools: a function of the seed and the key of the call, so that every host of the same
playbook gets the same outcomes.
"""

from __future__ import annotations

import random
from typing import Any

from noetl_temporal.machine.call import PlainOutcome

__all__ = ["QUIET_AFTER", "ToolOutcomes"]

QUIET_AFTER = 12
"""The number of calls in a step run (for one item) after which all succeed and request no more, so every run ends."""

KINDS = ("server_error", "timeout", "connection", "auth", "rate_limit", "exception")
ODD_RESULTS: tuple[Any, ...] = (None, [], "text", 7, {"more": True}, {"items": "none"}, {"n": "x", "wait": "5s"})


class ToolOutcomes:
    """``failing`` is how likely an attempt ends in an error, ``odd`` how likely a result has another shape."""

    def __init__(self, seed: int) -> None:
        mood = random.Random(f"{seed}/mood")
        self._seed = seed
        self.failing = mood.choice((0.0, 0.05, 0.2, 0.5))
        self.odd = mood.choice((0.0, 0.0, 0.05))

    def outcome(self, kind: str, key: str, attempt: int) -> PlainOutcome:
        """Return the outcome of one attempt of the call with this key, in any execution."""
        call = key.partition("/")[2]
        rng = random.Random(f"{self._seed}/{call}/{attempt}")
        is_quiet = int(call.rpartition("/")[2]) > QUIET_AFTER
        if not is_quiet and rng.random() < self.failing:
            return _error(rng, kind)
        body: dict[str, Any] = {
            "n": rng.randint(0, 99),
            "more": not is_quiet and rng.random() < 0.4,
            "flag": not is_quiet and rng.random() < 0.4,
            "wait": rng.choice((0.1, 1, "2s")),
            "items": [rng.randint(0, 9)] * rng.randint(0, 3),
        }
        result: Any = rng.choice(ODD_RESULTS) if not is_quiet and rng.random() < self.odd else body
        return _ok(kind, result)


def _ok(kind: str, body: Any) -> PlainOutcome:
    if kind != "http":
        return {"status": "ok", "result": body}
    result: Any = {"status_code": 200, "headers": {}, "url": "http://api.test/x", "elapsed": 0.1, "data": body}
    return {"status": "ok", "result": result, "http": {"status": 200, "headers": {}}}


def _error(rng: random.Random, kind: str) -> PlainOutcome:
    error_kind = rng.choice(KINDS)
    error = {
        "kind": error_kind,
        "message": f"{error_kind} of the simulation",
        "code": None,
        "retryable": error_kind != "auth",
    }
    status = {"server_error": 503, "auth": 401, "rate_limit": 429}.get(error_kind)
    if kind != "http" or status is None:
        return {"status": "error", "error": error}
    return {"status": "error", "error": {**error, "status": status}, "http": {"status": status, "headers": {}}}
