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
    RandomChoices,
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
    rng = RandomChoices(source)
    return _text(_framed_playbook(rng) if rng.occurs(0.1) else _v10_playbook(rng))


def _text(document: dict[str, Any]) -> str:
    """Return the playbook as JSON, which is YAML."""
    return json.dumps(document, ensure_ascii=False, indent=1)


def _v10_playbook(rng: RandomChoices) -> dict[str, Any]:
    names = _names(rng)
    executor: dict[str, Any] = {}
    if rng.occurs(0.2):
        executor["timeout"] = random_seconds(rng, 20)
    bounded = _has_timeout(executor)
    if rng.occurs(0.2):
        executor["policy"] = {"failure": {"mode": "fail_fast"}}
    steps = [_step(rng, name, index, names, bounded) for index, name in enumerate(names)]
    if rng.occurs(0.012):
        steps += _many_branches(rng, steps[0])
    if rng.occurs(0.06):
        steps += _branches_that_meet_twice(rng, steps[0])
    routes = item_routes(rng, steps, names)
    if rng.occurs(0.15):
        steps = _region(rng, steps)
    steps += routes
    if rng.occurs(0.5):
        steps.append(_end(rng))
    path = rng.of("sim/run", "sim/run", "sim/run", "p" * 320, "sim/ünï")
    head = {"apiVersion": "noetl.io/v10", "kind": "Playbook", "metadata": {"name": "sim", "path": path}}
    return head | {"workload": WORKLOAD, "executor": {"spec": executor}, "workflow": steps}


def _framed_playbook(rng: RandomChoices) -> dict[str, Any]:
    """A framed loop whose run_trace depends on no time, so that it can be compared with the same loop unframed."""
    rng.odd = 0.0
    pipeline = tasks(rng, ["t0", "t1"][: rng.number(1, 2)], bounded=False)
    _allow_repetition(pipeline)
    for task in pipeline:
        task.get("spec", {}).pop("timeout", None)
    if rng.occurs(0.4):  # a row for each attempt that goes well, whatever happened to the process of another
        rules = [{"else": {"then": {"do": "retry", "attempts": rng.number(3, 6), "delay": 0.2}}}]
        sink = {"tool": "postgres", "auth": "pg", "table": "t0", "data": {"n": "{{ output.data.n }}"}}
        pipeline[0] |= {"spec": {"policy": {"rules": rules}}, "sink": sink}
    step = {"step": "s0", "loop": random_framed_loop(rng), "tool": pipeline, "next": {"arcs": [{"step": "s1"}]}}
    head = {"apiVersion": "noetl.io/v10", "kind": "Playbook", "metadata": {"name": "sim", "path": "sim/framed"}}
    return head | {"workload": WORKLOAD, "workflow": [step, {"step": "s1", "tool": {"kind": "noop"}}]}


def _names(rng: RandomChoices) -> list[str]:
    count = rng.of(1, 1, 2, 3, 3, 4, 5, 6)
    names = [f"s{index}" for index in range(count)]
    if rng.occurs(0.08):
        for index, odd_name in enumerate(rng.source.sample(ODD_NAMES, min(count, rng.number(1, 3)))):
            names[index] = odd_name
    return names


def _step(rng: RandomChoices, name: str, index: int, names: list[str], bounded: bool) -> dict[str, Any]:
    step: dict[str, Any] = {"step": name}
    spec, policy = _spec(rng)
    labels = _labels(rng)
    if labels and rng.occurs(0.3):
        step["loop"] = random_loop(rng)
    is_bounded = bounded or _has_timeout(spec)
    if labels:
        step["tool"] = tasks(rng, labels, bounded=is_bounded and rng.occurs(0.5))
        if "frame" in step.get("loop", {}).get("spec", {}):
            _allow_repetition(step["tool"])
        else:
            _add_playbook_calls(rng, step["tool"])
    if policy:
        spec["policy"] = policy
    if spec:
        step["spec"] = spec
    if rng.occurs(0.2) or rng.occurs(rng.odd):
        step["set"] = {"ctx.kept": rng.of(1, "{{ ctx.rounds | default(0) }}", "{{ nobody.there }}")}
    step |= _routes(rng, index, names)
    return step


def _labels(rng: RandomChoices) -> list[str]:
    labels = [f"t{number}" for number in range(rng.of(0, 1, 1, 1, 2, 2, 3))]
    if labels and rng.occurs(0.05):
        labels[0] = rng.of(*ODD_LABELS)
    return labels


def _allow_repetition(pipeline: list[dict[str, Any]]) -> None:
    """Remove ``idempotent: false`` from a framed loop, which would be refused at submission."""
    for task in pipeline:
        task.get("spec", {}).pop("idempotent", None)


def _add_playbook_calls(rng: RandomChoices, pipeline: list[dict[str, Any]]) -> None:
    """Let some tasks call another playbook, whose outcome the simulated world decides. A frame cannot call one."""
    for task in pipeline:
        if task["kind"] == "noop" and rng.occurs(0.12):
            task |= {"kind": "playbook", "path": "sim/called"}


def _has_timeout(spec: dict[str, Any]) -> bool:
    """Whether a timeout ends a step that would run forever; a template that gives none sets no timeout."""
    return spec.get("timeout") not in (None, NO_SECONDS)


def _spec(rng: RandomChoices) -> tuple[dict[str, Any], dict[str, Any]]:
    spec: dict[str, Any] = {}
    policy: dict[str, Any] = {}
    if rng.occurs(0.2):
        spec["timeout"] = random_seconds(rng, 10)
    if rng.occurs(0.3):
        spec["join"] = rng.of("wave", "any", "each")
    if rng.occurs(0.12):
        when = RAISING if rng.occurs(rng.odd) else rng.of("{{ workload.go }}", "{{ ctx.rounds is defined }}")
        rules = [{"when": when, "then": {"allow": rng.of(True, False)}}]
        policy["admit"] = {"rules": [*rules, {"else": {"then": {"allow": rng.of(True, True, False)}}}]}
    if rng.occurs(0.1):
        policy["failure"] = {"mode": rng.of("fail_fast", "best_effort")}
    return spec, policy


def _routes(rng: RandomChoices, index: int, names: list[str]) -> dict[str, Any]:
    """Return routes. A route back counts how often it was followed, since a denied step counts nothing."""
    routes: dict[str, Any] = {}
    ahead = names[index + 1 :]
    count = min(len(ahead), rng.of(0, 1, 1, 2, 3))
    arcs = [_arc(rng, target) for target in rng.source.sample(ahead, count)]
    if rng.occurs(0.2):
        back = rng.of(*names[: index + 1])
        when = f"{{{{ (ctx.rounds | default(0)) < {ROUNDS} }}}}"
        arcs.insert(0, {"step": back, "when": when, "set": {"ctx.rounds": "{{ (ctx.rounds | default(0)) + 1 }}"}})
    if not arcs:
        return routes
    return routes | {"next": {"spec": {"mode": rng.of("exclusive", "inclusive")}, "arcs": arcs}}


def _arc(rng: RandomChoices, target: str) -> dict[str, Any]:
    arc: dict[str, Any] = {"step": target}
    if rng.occurs(0.01 + rng.odd):
        arc["when"] = rng.of(RAISING, RAISING_AFTER_FAILURE)
    elif rng.occurs(0.4):
        arc["when"] = rng.of(
            "{{ event.name == 'step.failed' }}",
            "{{ event.name == 'step.failed' and error.kind == 'server_error' }}",
            "{{ event.name == 'step.done' }}",
            "{{ event.name == 'step.failed' and error.kind == 'timeout' }}",
            "{{ event.name in ['loop.done', 'loop.failed'] }}",
            "{{ output.data.flag }}",
            "{{ workload.go }}",
        )
    if rng.occurs(0.1):
        arc["set"] = {"ctx.way": rng.of(target[:10], "{{ nobody }}")}
    return arc


def _region(rng: RandomChoices, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a loop over all the steps, in which no loop has frames; sometimes inside another loop."""
    for step in steps:
        step.get("loop", {}).get("spec", {}).pop("frame", None)
    loop: dict[str, Any] = {"in": f"{{{{ range({rng.number(0, 4)}) | list }}}}", "iterator": "each"}
    loop["spec"] = rng.of({}, {"mode": "parallel", "max_in_flight": rng.number(1, 3)})
    if rng.occurs(0.3):
        loop["spec"] |= {"policy": {"failure": {"mode": rng.of("fail_fast", "best_effort")}}}
    name = f"around {steps[0]['step']}"[:40]
    steps[-1].setdefault("next", {"arcs": []})["arcs"].append({"step": f"{name} ends"})
    loop_step = {"step": name, "loop": loop, "next": {"arcs": [{"step": steps[0]["step"]}]}}
    region = [loop_step, *steps, {"step": f"{name} ends", "spec": {"end_loop": name}}]
    return _region(rng, region) if rng.occurs(0.2) else region


def _branches_that_meet_twice(rng: RandomChoices, first_step: dict[str, Any]) -> list[dict[str, Any]]:
    """Return branches that meet in several runs of one step, with handled and unhandled failures; some are loops."""
    loop = {"loop": {"in": "{{ range(2) | list }}", "iterator": "item"}} if rng.occurs(0.5) else {}
    branches = ["b/1", "b#1", "branch2", "branch3"]
    first_step["next"] = {"spec": {"mode": "inclusive"}, "arcs": [{"step": name} for name in branches]}
    handled_when, policy = "{{ event.name == 'step.failed' and error.kind in ['exception', 'timeout', 'auth'] }}", {}
    if rng.occurs(0.6):  # all fail, and only the last ones are handled
        handled_when = "{{ event.name == 'step.failed' and ctx.met > 2 }}"
        fails = {"do": "fail", "set": {"ctx.met": "{{ (ctx.met | default(0)) + 1 }}"}}
        policy = {"spec": {"policy": {"rules": [{"else": {"then": fails}}]}}}
    meet = {"step": "meet", "spec": {"join": "each"}, "tool": {"kind": "http", "url": "http://api.test/x", **policy}}
    return [
        *({"step": name, "tool": {"kind": "noop"}, **loop, "next": {"arcs": [{"step": "meet"}]}} for name in branches),
        meet | {"next": {"arcs": [{"step": "cure", "when": handled_when}]}},
        {"step": "cure", "tool": {"kind": "noop"}},
    ]


def _many_branches(rng: RandomChoices, first_step: dict[str, Any]) -> list[dict[str, Any]]:
    """Return more concurrent work than fits in a workflow task: many routes, or a loop of many or large items."""
    match rng.of("ways", "ways", "items", "bytes", "where"):
        case "ways":
            names = [f"w{index}" for index in range(rng.number(450, 650))]
            for key in ("tool", "loop", "spec", "set"):
                first_step.pop(key, None)
            first_step["next"] = {"spec": {"mode": "inclusive"}, "arcs": [{"step": name} for name in names]}
            return [{"step": name, "tool": {"kind": "noop"}} for name in names]
        case "items":
            spec = {"mode": "parallel", "max_in_flight": rng.number(200, 900)}
            first_step["loop"] = {"in": "{{ range(1000) | list }}", "iterator": "item", "spec": spec}
        case "bytes":
            spec = {"mode": "parallel", "max_in_flight": 100}
            first_step["loop"] = {"in": "{{ ['x' * 40000] * 80 }}", "iterator": "item", "spec": spec}
            first_step["tool"] = {"kind": "noop", "input": {"given": "{{ item }}"}}
        case _:
            first_step["loop"] = {"in": "{{ range(30000) | list }}", "iterator": "item", "where": "{{ item < 5 }}"}
    first_step.setdefault("tool", {"kind": "noop"})
    return []


def _end(rng: RandomChoices) -> dict[str, Any]:
    """Return a final step, which is the cleanup after a stop."""
    step: dict[str, Any] = {"step": "end"}
    if rng.occurs(0.8):
        step["tool"] = tasks(rng, ["c0", "c1"][: rng.number(1, 2)], bounded=False)
    if rng.occurs(0.5):
        step["spec"] = {"timeout": random_seconds(rng, 20)}
    return step
