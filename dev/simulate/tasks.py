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
    "Chance",
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


class Chance:
    """The random choices for one playbook. ``odd`` is the probability of an unexpected value."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.odd = source.choice((0.0, 0.0, 0.0, 0.03, 0.1))

    def once(self, likely: float) -> bool:
        return self.source.random() < likely

    def of(self, *choices: Any) -> Any:
        return self.source.choice(choices)

    def number(self, low: int, high: int) -> int:
        return self.source.randint(low, high)


def random_seconds(chance: Chance, longest: int = 30) -> Any:
    """Return a duration in one of the forms that a playbook may use, seldom an invalid one."""
    if chance.once(chance.odd):
        return chance.of(*BAD_SECONDS)
    value = chance.of(0.2, 1, chance.number(1, longest))
    return chance.of(value, f"{value}s", f"{{{{ {value} }}}}", value)


def random_amount(chance: Chance, low: int, high: int) -> Any:
    """Return a count, seldom something else."""
    if chance.once(chance.odd):
        return chance.of(*BAD_AMOUNTS)
    value = chance.number(low, high)
    return chance.of(value, value, f"{{{{ {value} }}}}")


def tasks(chance: Chance, labels: list[str], *, bounded: bool) -> list[dict[str, Any]]:
    """Return a pipeline of tasks with these labels. If ``bounded``, a timeout ends the step, so it may poll forever."""
    return [_task(chance, label, labels, bounded) for label in labels]


def _task(chance: Chance, label: str, labels: list[str], bounded: bool) -> dict[str, Any]:
    kind = chance.of("noop", "noop", "http", "python")
    made: dict[str, Any] = {"name": label, "kind": kind}
    made |= {"http": {"url": "http://api.test/x"}, "python": {"code": "result = 1"}}.get(kind, {})
    if chance.once(0.3):
        made["input"] = {"given": chance.of("{{ ctx.rounds | default(0) }}", "{{ workload.text }}", 7)}
    elif chance.once(chance.odd):
        made["input"] = {"given": chance.of("{{ nobody.knows }}", "{{ 1 / workload.zero }}")}
    spec: dict[str, Any] = {}
    if chance.once(0.6):
        spec["policy"] = _policy(chance, labels, bounded)
    if chance.once(0.15):
        spec["timeout"] = random_seconds(chance)
    if chance.once(0.1):
        spec["idempotent"] = False
    if spec:
        made["spec"] = spec
    if chance.once(0.25):
        made["sink"] = _sinks(chance)
    if chance.once(0.2):
        made["set"] = {
            chance.of("ctx.seen", "ctx.deep.er", "iter.page"): chance.of("{{ output.data.n }}", 1, "{{ nobody }}")
        }
    return made


def _sinks(chance: Chance) -> Any:
    """One or two, of attempts and of tasks."""
    made = [
        {"tool": "postgres", "auth": "pg", "table": f"t{index}", "data": {"n": "{{ output.data.n }}"}}
        | ({"level": chance.of("attempt", "task")} if chance.once(0.5) else {})
        | ({"mode": chance.of("append", "replace")} if chance.once(0.3) else {})
        | ({"guard": {"when": "{{ output.data.flag }}"}} if chance.once(0.15) else {})
        for index in range(chance.of(1, 1, 2))
    ]
    return made[0] if len(made) == 1 else made


def _policy(chance: Chance, labels: list[str], bounded: bool) -> dict[str, Any]:
    rules = [_rule(chance, labels) for _ in range(chance.number(1, 3))]
    if bounded and chance.once(0.5):
        do = {"do": "jump", "to": chance.of(*labels), **({"delay": 0.5} if chance.once(0.5) else {})}
        rules.insert(0, {"when": "{{ workload.always }}", "then": do})
    if chance.once(0.2):
        rules.append({"else": {"then": {"do": chance.of("continue", "break", "fail")}}})
    return {"rules": rules} | ({"on_unmatched": chance.of("fail", "continue")} if chance.once(0.4) else {})


def _rule(chance: Chance, labels: list[str]) -> dict[str, Any]:
    when = RAISING if chance.once(chance.odd / 3) else chance.of(*WHENS)
    then = _action(chance, labels)
    rule: dict[str, Any] = {"when": when, "then": then}
    if chance.once(0.2):
        then["set"] = {chance.of("ctx.seen", "iter.page"): chance.of("{{ output.status }}", 2, "{{ nobody }}")}
    return rule


def _action(chance: Chance, labels: list[str]) -> dict[str, Any]:
    match chance.of("retry", "retry", "retry", "again", "jump", "break", "fail", "continue"):
        case "retry":
            return {"do": "retry", "attempts": random_amount(chance, 1, 5), **_delays(chance)}
        case "again":
            made = {"do": "again", "attempts": random_amount(chance, 1, 6)}
            if chance.once(0.6):
                made["collect"] = {"strategy": chance.of("append", "collect", "merge", "replace"), "path": "items"}
                if made["collect"]["strategy"] == "merge":
                    made["collect"]["path"] = ""
            return made | ({"delay": random_seconds(chance, 3)} if chance.once(0.3) else {})
        case "jump":
            to = {"do": "jump", "to": chance.of(*labels, "previous") if len(labels) > 1 else labels[0]}
            return to | ({"delay": random_seconds(chance, 3)} if chance.once(0.4) else {})
        case do:
            return {"do": do}


def _delays(chance: Chance) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if chance.once(0.6):
        made["delay"] = chance.of(random_seconds(chance, 5), 1, "{{ output.data.wait | default(0.1) }}")
    if chance.once(0.5):
        made["backoff"] = chance.of("none", "linear", "exponential")
    if chance.once(0.2):
        made["max_delay"] = random_seconds(chance, 10)
    if chance.once(0.2):
        made["jitter"] = True
    return made


ROWS = 20
"""The number of items in the list that the request has. They are the numbers from 0 on."""


def random_loop(chance: Chance) -> dict[str, Any]:
    """Return a loop over some items, in any mode."""
    size = chance.of(0, 1, 2, 3, 5, 8, 20)
    mode = chance.of("sequential", "parallel", "parallel", "chunked")
    spec: dict[str, Any] = {"mode": mode}
    if chance.once(0.5) and mode == "parallel":
        spec["max_in_flight"] = random_amount(chance, 1, 6)
    if mode == "chunked":
        spec["chunk_size"] = random_amount(chance, 1, 4)
    if chance.once(0.25):
        spec["on_error"] = "fail_fast"
    if chance.once(0.2):
        spec["policy"] = {"failure": {"mode": "best_effort"}}
    if chance.once(0.15):
        spec["timeout"] = random_seconds(chance, 10)
    made: dict[str, Any] = {"iterator": "item", "spec": spec}
    if chance.once(0.5):
        spec["frame"] = _random_frame(chance)
        size = chance.of(size, 20, 40)
    made["in"] = "{{ workload.rows }}" if size == ROWS else f"{{{{ range({size}) | list }}}}"
    if chance.once(0.15):
        made["limit"] = random_amount(chance, 1, 4)
    if chance.once(0.15):
        made["where"] = RAISING if chance.once(chance.odd) else "{{ item % 2 == 0 }}"
    return made


def random_framed_loop(chance: Chance) -> dict[str, Any]:
    """Over so many items that several segments are stored."""
    spec: dict[str, Any] = {"mode": chance.of("sequential", "parallel", "parallel"), "frame": _random_frame(chance)}
    if spec["mode"] == "parallel":
        spec["max_in_flight"] = chance.number(1, 8)
    if chance.once(0.5):
        spec["policy"] = {"failure": {"mode": "best_effort"}}
    return {"in": f"{{{{ range({chance.number(10, 40)}) | list }}}}", "iterator": "item", "spec": spec}


def _random_frame(chance: Chance) -> dict[str, Any]:
    """Return small limits, so that a loop has several frames."""
    made: dict[str, Any] = {}
    if chance.once(0.6):
        made["max_rows"] = random_amount(chance, 1, 9)
    if chance.once(0.7):
        made["row_concurrency"] = random_amount(chance, 1, 5)
    if chance.once(0.3):
        made["max_seconds"] = random_seconds(chance, 20)
    if chance.once(0.2):
        made["max_bytes"] = random_amount(chance, 1, 1000)
    return made
