"""Random tasks of a step: calls with policies, sinks, timeouts, and values where nobody expects them."""

from __future__ import annotations

import random
from typing import Any

__all__ = [
    "BAD_AMOUNTS",
    "BAD_SECONDS",
    "NO_SECONDS",
    "RAISING",
    "RAISING_AFTER_FAILURE",
    "RandomChoices",
    "random_amount",
    "random_framed_loop",
    "random_loop",
    "random_seconds",
    "tasks",
]

NO_SECONDS = "{{ none }}"
BAD_SECONDS: tuple[Any, ...] = (
    *("{{ 'nan' | float }}", "{{ 'inf' | float }}", "{{ workload.text }}", "{{ workload.list }}", "{{ -1 }}"),
    *("{{ '5s' }}", "{{ true }}", "{{ workload.huge }}", NO_SECONDS, "{{ 1 / workload.zero }}", "{{ nobody }}"),
)
BAD_AMOUNTS: tuple[Any, ...] = (*BAD_SECONDS, "{{ 2.5 }}", "{{ '2.5' }}", "{{ '3' }}", "{{ 0 }}")

WHENS = (
    "{{ output.status == 'error' }}",
    "{{ output.error.kind in ['server_error', 'timeout'] }}",
    "{{ output.error.kind == 'worker_lost' or output.error.kind == 'unknown_outcome' }}",
    "{{ output.status == 'ok' and output.data.flag }}",
    "{{ output.data.more }}",
    "{{ output.data.n > 50 }}",
)
RAISING = "{{ 1 / workload.zero > 0 }}"
RAISING_AFTER_FAILURE = "{{ event.name == 'step.failed' and 1 / workload.zero > 0 }}"


class RandomChoices:
    """The random choices for one playbook. ``odd`` is the probability of an unexpected value."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.odd = source.choice((0.0, 0.0, 0.0, 0.03, 0.1))

    def occurs(self, probability: float) -> bool:
        return self.source.random() < probability

    def of(self, *choices: Any) -> Any:
        return self.source.choice(choices)

    def number(self, low: int, high: int) -> int:
        return self.source.randint(low, high)


def random_seconds(rng: RandomChoices, longest: int = 30) -> Any:
    """Return a duration in one of the forms that a playbook may use, seldom an invalid one."""
    if rng.occurs(rng.odd):
        return rng.of(*BAD_SECONDS)
    value = rng.of(0.2, 1, rng.number(1, longest))
    return rng.of(value, f"{value}s", f"{{{{ {value} }}}}", value)


def random_amount(rng: RandomChoices, low: int, high: int) -> Any:
    """Return a count, seldom something else."""
    if rng.occurs(rng.odd):
        return rng.of(*BAD_AMOUNTS)
    value = rng.number(low, high)
    return rng.of(value, value, f"{{{{ {value} }}}}")


def tasks(rng: RandomChoices, labels: list[str], *, bounded: bool) -> list[dict[str, Any]]:
    """Return a pipeline of tasks with these labels. If ``bounded``, a timeout ends the step, so it may poll forever."""
    return [_task(rng, label, labels, bounded) for label in labels]


def _task(rng: RandomChoices, label: str, labels: list[str], bounded: bool) -> dict[str, Any]:
    kind = rng.of("noop", "noop", "http", "python")
    task: dict[str, Any] = {"name": label, "kind": kind}
    task |= {"http": {"url": "http://api.test/x"}, "python": {"code": "result = 1"}}.get(kind, {})
    if rng.occurs(0.3):
        task["input"] = {"given": rng.of("{{ ctx.rounds | default(0) }}", "{{ workload.text }}", 7)}
    elif rng.occurs(rng.odd):
        task["input"] = {"given": rng.of("{{ nobody.knows }}", "{{ 1 / workload.zero }}")}
    spec: dict[str, Any] = {}
    if rng.occurs(0.6):
        spec["policy"] = _policy(rng, labels, bounded)
    if rng.occurs(0.15):
        spec["timeout"] = random_seconds(rng)
    if rng.occurs(0.1):
        spec["idempotent"] = False
    if spec:
        task["spec"] = spec
    if rng.occurs(0.25):
        task["sink"] = _sinks(rng)
    if rng.occurs(0.2):
        task["set"] = {rng.of("ctx.seen", "ctx.deep.er", "iter.page"): rng.of("{{ output.data.n }}", 1, "{{ nobody }}")}
    return task


def _sinks(rng: RandomChoices) -> Any:
    """Return one or two sinks, of attempts or of tasks."""
    sinks = [
        {"tool": "postgres", "auth": "pg", "table": f"t{index}", "data": {"n": "{{ output.data.n }}"}}
        | ({"level": rng.of("attempt", "task")} if rng.occurs(0.5) else {})
        | ({"mode": rng.of("append", "replace")} if rng.occurs(0.3) else {})
        | ({"guard": {"when": "{{ output.data.flag }}"}} if rng.occurs(0.15) else {})
        for index in range(rng.of(1, 1, 2))
    ]
    return sinks[0] if len(sinks) == 1 else sinks


def _policy(rng: RandomChoices, labels: list[str], bounded: bool) -> dict[str, Any]:
    rules = [_rule(rng, labels) for _ in range(rng.number(1, 3))]
    if bounded and rng.occurs(0.5):
        do = {"do": "jump", "to": rng.of(*labels), **({"delay": 0.5} if rng.occurs(0.5) else {})}
        rules.insert(0, {"when": "{{ workload.always }}", "then": do})
    if rng.occurs(0.2):
        rules.append({"else": {"then": {"do": rng.of("continue", "break", "fail")}}})
    return {"rules": rules} | ({"on_unmatched": rng.of("fail", "continue")} if rng.occurs(0.4) else {})


def _rule(rng: RandomChoices, labels: list[str]) -> dict[str, Any]:
    when = RAISING if rng.occurs(rng.odd / 3) else rng.of(*WHENS)
    then = _action(rng, labels)
    rule: dict[str, Any] = {"when": when, "then": then}
    if rng.occurs(0.2):
        then["set"] = {rng.of("ctx.seen", "iter.page"): rng.of("{{ output.status }}", 2, "{{ nobody }}")}
    return rule


def _action(rng: RandomChoices, labels: list[str]) -> dict[str, Any]:
    match rng.of("retry", "retry", "retry", "again", "jump", "break", "fail", "continue"):
        case "retry":
            return {"do": "retry", "attempts": random_amount(rng, 1, 5), **_delays(rng)}
        case "again":
            action = {"do": "again", "attempts": random_amount(rng, 1, 6)}
            if rng.occurs(0.6):
                action["collect"] = {"strategy": rng.of("append", "collect", "merge", "replace"), "path": "items"}
                if action["collect"]["strategy"] == "merge":
                    action["collect"]["path"] = ""
            return action | ({"delay": random_seconds(rng, 3)} if rng.occurs(0.3) else {})
        case "jump":
            to = {"do": "jump", "to": rng.of(*labels, "previous") if len(labels) > 1 else labels[0]}
            return to | ({"delay": random_seconds(rng, 3)} if rng.occurs(0.4) else {})
        case do:
            return {"do": do}


def _delays(rng: RandomChoices) -> dict[str, Any]:
    delays: dict[str, Any] = {}
    if rng.occurs(0.6):
        delays["delay"] = rng.of(random_seconds(rng, 5), 1, "{{ output.data.wait | default(0.1) }}")
    if rng.occurs(0.5):
        delays["backoff"] = rng.of("none", "linear", "exponential")
    if rng.occurs(0.2):
        delays["max_delay"] = random_seconds(rng, 10)
    if rng.occurs(0.2):
        delays["jitter"] = True
    return delays


ROWS = 20
"""The number of items in the list that the request has. They are the numbers from 0 on."""


def random_loop(rng: RandomChoices) -> dict[str, Any]:
    """Return a loop over some items, in any mode."""
    size = rng.of(0, 1, 2, 3, 5, 8, 20)
    mode = rng.of("sequential", "parallel", "parallel", "chunked")
    spec: dict[str, Any] = {"mode": mode}
    if rng.occurs(0.5) and mode == "parallel":
        spec["max_in_flight"] = random_amount(rng, 1, 6)
    if mode == "chunked":
        spec["chunk_size"] = random_amount(rng, 1, 4)
    if rng.occurs(0.25):
        spec["on_error"] = "fail_fast"
    if rng.occurs(0.2):
        spec["policy"] = {"failure": {"mode": "best_effort"}}
    if rng.occurs(0.15):
        spec["timeout"] = random_seconds(rng, 10)
    loop: dict[str, Any] = {"iterator": "item", "spec": spec}
    if rng.occurs(0.5):
        spec["frame"] = _random_frame(rng)
        size = rng.of(size, 20, 40)
    loop["in"] = "{{ workload.rows }}" if size == ROWS else f"{{{{ range({size}) | list }}}}"
    if rng.occurs(0.15):
        loop["limit"] = random_amount(rng, 1, 4)
    if rng.occurs(0.15):
        loop["where"] = RAISING if rng.occurs(rng.odd) else "{{ item % 2 == 0 }}"
    return loop


def random_framed_loop(rng: RandomChoices) -> dict[str, Any]:
    """Return a loop over so many items that several segments are stored."""
    spec: dict[str, Any] = {"mode": rng.of("sequential", "parallel", "parallel"), "frame": _random_frame(rng)}
    if spec["mode"] == "parallel":
        spec["max_in_flight"] = rng.number(1, 8)
    if rng.occurs(0.5):
        spec["policy"] = {"failure": {"mode": "best_effort"}}
    return {"in": f"{{{{ range({rng.number(10, 40)}) | list }}}}", "iterator": "item", "spec": spec}


def _random_frame(rng: RandomChoices) -> dict[str, Any]:
    """Return small limits, so that a loop has several frames."""
    frame: dict[str, Any] = {}
    if rng.occurs(0.6):
        frame["max_rows"] = random_amount(rng, 1, 9)
    if rng.occurs(0.7):
        frame["row_concurrency"] = random_amount(rng, 1, 5)
    if rng.occurs(0.3):
        frame["max_seconds"] = random_seconds(rng, 20)
    if rng.occurs(0.2):
        frame["max_bytes"] = random_amount(rng, 1, 1000)
    return frame
