"""Random playbooks of every construct that can run: steps, routes between them, timeouts, stops, odd names."""

from __future__ import annotations

import json
import random
from typing import Any

from dev.simulate.dialects import older_playbook
from dev.simulate.item_routes import item_routes
from dev.simulate.tasks import (
    NO_SECONDS,
    RAISING,
    RAISING_AFTER_FAILURE,
    Chance,
    random_framed_loop,
    random_loop,
    random_seconds,
    tasks,
)

__all__ = ["playbook"]

ROUNDS = 6
"""How often routes back may be followed, in total."""

WORKLOAD: dict[str, Any] = {
    "go": True,
    "zero": 0,
    "text": "some text",
    "list": [1, "a"],
    "huge": 10**15,
    "always": True,
}
ODD_NAMES = ("c/1", "c#1", "c#1/0", "a:b:1", "with space", "ünï😀", "x" * 300, "end.", "a.b", "c:timeout", "c#1:wait1")
ODD_LABELS = ("t/1", "t:1", "t#1/0", "t:1:sink", "with space", "ünï😀", "%2F")


def playbook(source: random.Random) -> str:
    """Return the text of a random playbook; most are in v10, some in older dialects."""
    if source.random() < 0.12:
        return older_playbook(source)
    chance = Chance(source)
    return _text(_framed(chance) if chance.once(0.1) else _v10(chance))


def _text(made: dict[str, Any]) -> str:
    """Return the playbook as JSON, which is YAML."""
    return json.dumps(made, ensure_ascii=False, indent=1)


def _v10(chance: Chance) -> dict[str, Any]:
    names = _names(chance)
    executor: dict[str, Any] = {}
    if chance.once(0.2):
        executor["timeout"] = random_seconds(chance, 20)
    bounded = _has_timeout(executor)
    if chance.once(0.2):
        executor["policy"] = {"failure": {"mode": "fail_fast"}}
    steps = [_step(chance, name, index, names, bounded) for index, name in enumerate(names)]
    if chance.once(0.012):
        steps += _many_branches(chance, steps[0])
    if chance.once(0.06):
        steps += _branches_that_meet_twice(chance, steps[0])
    routes = item_routes(chance, steps, names)
    if chance.once(0.15):
        steps = _region(chance, steps)
    steps += routes
    if chance.once(0.5):
        steps.append(_end(chance))
    path = chance.of("sim/run", "sim/run", "sim/run", "p" * 320, "sim/ünï")
    made = {"apiVersion": "noetl.io/v10", "kind": "Playbook", "metadata": {"name": "sim", "path": path}}
    return made | {"workload": WORKLOAD, "executor": {"spec": executor}, "workflow": steps}


def _framed(chance: Chance) -> dict[str, Any]:
    """A framed loop whose run_trace depends on no time, so that it can be compared with the same loop unframed."""
    chance.odd = 0.0
    made = tasks(chance, ["t0", "t1"][: chance.number(1, 2)], bounded=False)
    _allow_repetition(made)
    for task in made:
        task.get("spec", {}).pop("timeout", None)
    if chance.once(0.4):  # a row for each attempt that goes well, whatever happened to the process of another
        rules = [{"else": {"then": {"do": "retry", "attempts": chance.number(3, 6), "delay": 0.2}}}]
        sink = {"tool": "postgres", "auth": "pg", "table": "t0", "data": {"n": "{{ output.data.n }}"}}
        made[0] |= {"spec": {"policy": {"rules": rules}}, "sink": sink}
    step = {"step": "s0", "loop": random_framed_loop(chance), "tool": made, "next": {"arcs": [{"step": "s1"}]}}
    head = {"apiVersion": "noetl.io/v10", "kind": "Playbook", "metadata": {"name": "sim", "path": "sim/framed"}}
    return head | {"workload": WORKLOAD, "workflow": [step, {"step": "s1", "tool": {"kind": "noop"}}]}


def _names(chance: Chance) -> list[str]:
    count = chance.of(1, 1, 2, 3, 3, 4, 5, 6)
    names = [f"s{index}" for index in range(count)]
    if chance.once(0.08):
        for index, odd in enumerate(chance.source.sample(ODD_NAMES, min(count, chance.number(1, 3)))):
            names[index] = odd
    return names


def _step(chance: Chance, name: str, index: int, names: list[str], bounded: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"step": name}
    spec, policy = _spec(chance)
    labels = _labels(chance)
    if labels and chance.once(0.3):
        made["loop"] = random_loop(chance)
    is_bounded = bounded or _has_timeout(spec)
    if labels:
        made["tool"] = tasks(chance, labels, bounded=is_bounded and chance.once(0.5))
        if "frame" in made.get("loop", {}).get("spec", {}):
            _allow_repetition(made["tool"])
        else:
            _add_playbook_calls(chance, made["tool"])
    if policy:
        spec["policy"] = policy
    if spec:
        made["spec"] = spec
    if chance.once(0.2) or chance.once(chance.odd):
        made["set"] = {"ctx.kept": chance.of(1, "{{ ctx.rounds | default(0) }}", "{{ nobody.there }}")}
    made |= _routes(chance, index, names)
    return made


def _labels(chance: Chance) -> list[str]:
    labels = [f"t{number}" for number in range(chance.of(0, 1, 1, 1, 2, 2, 3))]
    if labels and chance.once(0.05):
        labels[0] = chance.of(*ODD_LABELS)
    return labels


def _allow_repetition(made: list[dict[str, Any]]) -> None:
    """Remove ``idempotent: false`` from a framed loop, which would be refused at submission."""
    for task in made:
        task.get("spec", {}).pop("idempotent", None)


def _add_playbook_calls(chance: Chance, made: list[dict[str, Any]]) -> None:
    """Let some tasks call another playbook, whose outcome the simulated world decides. A frame cannot call one."""
    for task in made:
        if task["kind"] == "noop" and chance.once(0.12):
            task |= {"kind": "playbook", "path": "sim/called"}


def _has_timeout(spec: dict[str, Any]) -> bool:
    """Whether a timeout ends a step that would run forever; a template that gives none sets no timeout."""
    return spec.get("timeout") not in (None, NO_SECONDS)


def _spec(chance: Chance) -> tuple[dict[str, Any], dict[str, Any]]:
    spec: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    if chance.once(0.2):
        spec["timeout"] = random_seconds(chance, 10)
    if chance.once(0.3):
        spec["join"] = chance.of("wave", "any", "each")
    if chance.once(0.12):
        when = RAISING if chance.once(chance.odd) else chance.of("{{ workload.go }}", "{{ ctx.rounds is defined }}")
        rules = [{"when": when, "then": {"allow": chance.of(True, False)}}]
        policy["admit"] = {"rules": [*rules, {"else": {"then": {"allow": chance.of(True, True, False)}}}]}
    if chance.once(0.1):
        policy["failure"] = {"mode": chance.of("fail_fast", "best_effort")}
    return spec, policy


def _routes(chance: Chance, index: int, names: list[str]) -> dict[str, Any]:
    """Return routes. A route back counts how often it was followed, since a denied step counts nothing."""
    made: dict[str, Any] = {}
    ahead = names[index + 1 :]
    count = min(len(ahead), chance.of(0, 1, 1, 2, 3))
    arcs = [_arc(chance, target) for target in chance.source.sample(ahead, count)]
    if chance.once(0.2):
        back = chance.of(*names[: index + 1])
        when = f"{{{{ (ctx.rounds | default(0)) < {ROUNDS} }}}}"
        arcs.insert(0, {"step": back, "when": when, "set": {"ctx.rounds": "{{ (ctx.rounds | default(0)) + 1 }}"}})
    if not arcs:
        return made
    return made | {"next": {"spec": {"mode": chance.of("exclusive", "inclusive")}, "arcs": arcs}}


def _arc(chance: Chance, target: str) -> dict[str, Any]:
    arc: dict[str, Any] = {"step": target}
    if chance.once(0.01 + chance.odd):
        arc["when"] = chance.of(RAISING, RAISING_AFTER_FAILURE)
    elif chance.once(0.4):
        arc["when"] = chance.of(
            "{{ event.name == 'step.failed' }}",
            "{{ event.name == 'step.failed' and error.kind == 'server_error' }}",
            "{{ event.name == 'step.done' }}",
            "{{ event.name == 'step.failed' and error.kind == 'timeout' }}",
            "{{ event.name in ['loop.done', 'loop.failed'] }}",
            "{{ output.data.flag }}",
            "{{ workload.go }}",
        )
    if chance.once(0.1):
        arc["set"] = {"ctx.way": chance.of(target[:10], "{{ nobody }}")}
    return arc


def _region(chance: Chance, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a loop over all the steps, in which no loop has frames; sometimes inside another loop."""
    for step in steps:
        step.get("loop", {}).get("spec", {}).pop("frame", None)
    loop: dict[str, Any] = {"in": f"{{{{ range({chance.number(0, 4)}) | list }}}}", "iterator": "each"}
    loop["spec"] = chance.of({}, {"mode": "parallel", "max_in_flight": chance.number(1, 3)})
    if chance.once(0.3):
        loop["spec"] |= {"policy": {"failure": {"mode": chance.of("fail_fast", "best_effort")}}}
    name = f"around {steps[0]['step']}"[:40]
    steps[-1].setdefault("next", {"arcs": []})["arcs"].append({"step": f"{name} ends"})
    first = {"step": name, "loop": loop, "next": {"arcs": [{"step": steps[0]["step"]}]}}
    made = [first, *steps, {"step": f"{name} ends", "spec": {"end_loop": name}}]
    return _region(chance, made) if chance.once(0.2) else made


def _branches_that_meet_twice(chance: Chance, first: dict[str, Any]) -> list[dict[str, Any]]:
    """Return branches that meet in several runs of one step, with handled and unhandled failures; some are loops."""
    loop = {"loop": {"in": "{{ range(2) | list }}", "iterator": "item"}} if chance.once(0.5) else {}
    branches = ["b/1", "b#1", "branch2", "branch3"]
    first["next"] = {"spec": {"mode": "inclusive"}, "arcs": [{"step": name} for name in branches]}
    handled, policy = "{{ event.name == 'step.failed' and error.kind in ['exception', 'timeout', 'auth'] }}", {}
    if chance.once(0.6):  # all fail, and only the last ones are handled
        handled = "{{ event.name == 'step.failed' and ctx.met > 2 }}"
        fails = {"do": "fail", "set": {"ctx.met": "{{ (ctx.met | default(0)) + 1 }}"}}
        policy = {"spec": {"policy": {"rules": [{"else": {"then": fails}}]}}}
    meet = {"step": "meet", "spec": {"join": "each"}, "tool": {"kind": "http", "url": "http://api.test/x", **policy}}
    return [
        *({"step": name, "tool": {"kind": "noop"}, **loop, "next": {"arcs": [{"step": "meet"}]}} for name in branches),
        meet | {"next": {"arcs": [{"step": "cure", "when": handled}]}},
        {"step": "cure", "tool": {"kind": "noop"}},
    ]


def _many_branches(chance: Chance, first: dict[str, Any]) -> list[dict[str, Any]]:
    """Return more concurrent work than fits in a workflow task: many routes, or a loop of many or large items."""
    match chance.of("ways", "ways", "items", "bytes", "where"):
        case "ways":
            names = [f"w{index}" for index in range(chance.number(450, 650))]
            for key in ("tool", "loop", "spec", "set"):
                first.pop(key, None)
            first["next"] = {"spec": {"mode": "inclusive"}, "arcs": [{"step": name} for name in names]}
            return [{"step": name, "tool": {"kind": "noop"}} for name in names]
        case "items":
            spec = {"mode": "parallel", "max_in_flight": chance.number(200, 900)}
            first["loop"] = {"in": "{{ range(1000) | list }}", "iterator": "item", "spec": spec}
        case "bytes":
            spec = {"mode": "parallel", "max_in_flight": 100}
            first["loop"] = {"in": "{{ ['x' * 40000] * 80 }}", "iterator": "item", "spec": spec}
            first["tool"] = {"kind": "noop", "input": {"given": "{{ item }}"}}
        case _:
            first["loop"] = {"in": "{{ range(30000) | list }}", "iterator": "item", "where": "{{ item < 5 }}"}
    first.setdefault("tool", {"kind": "noop"})
    return []


def _end(chance: Chance) -> dict[str, Any]:
    """Return a final step, which is the cleanup after a stop."""
    made: dict[str, Any] = {"step": "end"}
    if chance.once(0.8):
        made["tool"] = tasks(chance, ["c0", "c1"][: chance.number(1, 2)], bounded=False)
    if chance.once(0.5):
        made["spec"] = {"timeout": random_seconds(chance, 20)}
    return made
