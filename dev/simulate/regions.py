"""Adds branches to loops over steps in random playbooks, and finds the steps inside such loops."""

from __future__ import annotations

import json
import random
from typing import Any

from noetl_compiler.graph import Graph

__all__ = ["depth_of", "loop_ended_by", "region_of", "with_branches"]

PROBABILITY = 0.7
"""The probability that several steps lead to the end of a loop, in a playbook with loops over steps."""


# ---- playbooks -------------------------------------------------------------------------------------------------------


def with_branches(text: str, seed: int) -> str:
    """The playbook in whose loops over steps several steps lead to the end, some by way of another loop over steps."""
    rng = random.Random(f"{seed}/branches")
    if '"end_loop"' not in text or rng.random() >= PROBABILITY:
        return text
    document: dict[str, Any] = json.loads(text)
    steps: list[dict[str, Any]] = document["workflow"]
    end_index = next(number for number, step in enumerate(steps) if "end_loop" in step.get("spec", {}))
    end: str = steps[end_index]["step"]
    start_index = next(
        number for number, step in enumerate(steps) if step["step"] == steps[end_index]["spec"]["end_loop"]
    )
    inner = _inner_loop(rng, end) if rng.random() < 0.4 else []
    for step in steps[start_index + 1 : end_index]:
        if rng.random() < 0.6:
            target = rng.choice(("inner", end)) if inner else end
            step.setdefault("next", {"spec": {"mode": "inclusive"}, "arcs": []})["arcs"].append({"step": target})
    leads = any(arc["step"] == "inner" for step in steps for arc in step.get("next", {}).get("arcs", []))
    document["workflow"] = [*steps[:end_index], *(inner if leads else []), *steps[end_index:]]
    return json.dumps(document, ensure_ascii=False, indent=1)


def _inner_loop(rng: random.Random, end: str) -> list[dict[str, Any]]:
    """A loop over steps with two branches, both of which lead to its end."""
    spec = rng.choice(({}, {"mode": "parallel", "max_in_flight": 2}))
    arms = {"spec": {"mode": "inclusive"}, "arcs": [{"step": "left"}, {"step": "right"}]}
    loop = {"in": f"{{{{ range({rng.randint(0, 3)}) | list }}}}", "iterator": "one", "spec": spec}
    meet = {"next": {"arcs": [{"step": "inner ends"}]}}
    return [
        {"step": "inner", "loop": loop, "next": arms},
        {"step": "left", "tool": {"kind": "http", "url": "http://api.test/x"}, **meet},
        {"step": "right", "tool": {"kind": "noop"}, **meet},
        {"step": "inner ends", "spec": {"end_loop": "inner"}, "next": {"arcs": [{"step": end}]}},
    ]


# ---- graphs ----------------------------------------------------------------------------------------------------------


def region_of(graph: Graph, loop: str) -> set[str]:
    """Return the loop and the steps of its region at any depth: a failure of each may be that of an item."""
    loops = {loop}
    step = graph.steps.get(loop)
    for name in step.loop.region if step is not None and step.loop is not None else ():
        loops |= region_of(graph, name)
    return loops


def depth_of(graph: Graph, step: str) -> int:
    """Return the number of loops over steps around the step."""
    return sum(step in region_of(graph, name) - {name} for name in graph.steps)


def loop_ended_by(graph: Graph, end: str) -> str | None:
    """Return the loop over steps that ends at this step."""
    for step in graph.steps.values():
        if step.loop is not None and step.loop.region and step.route.arcs[0].target == end:
            return step.name
    return None
