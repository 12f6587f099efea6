"""Random routes of the items of loops, and the steps on them."""

from __future__ import annotations

from typing import Any

from dev.simulate.tasks import RAISING, RandomChoices, random_loop, tasks

__all__ = ["item_routes"]

_WHEN = (
    "{{ event.name == 'step.done' }}",
    "{{ event.name == 'step.failed' }}",
    "{{ event.name == 'step.failed' and error.kind == 'server_error' }}",
    "{{ output.data.flag }}",
    "{{ iter.index is even }}",
)


def item_routes(rng: RandomChoices, steps: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """Give the items of some loops routes, and return the steps on them, to which no other step leads."""
    route_steps: list[dict[str, Any]] = []
    for step in list(steps):
        if "loop" in step and "tool" in step and rng.occurs(0.4):
            step["loop"].get("spec", {}).pop("frame", None)
            ahead = names[names.index(step["step"]) + 1 :] if step["step"] in names else []
            route_steps += _routes_of(rng, step, f"r{len(route_steps)}", ahead)
    return route_steps


def _routes_of(rng: RandomChoices, step: dict[str, Any], name: str, ahead: list[str]) -> list[dict[str, Any]]:
    route = [_step(rng, f"{name}/{index}") for index in range(rng.number(1, 3))]
    targets = [hop["step"] for hop in route]
    for index, arc in enumerate(route[:-1]):
        if rng.occurs(0.6):
            arc["next"] = {"arcs": [_arc(rng, target) for target in targets[index + 1 :]]}
    if ahead and rng.occurs(0.2):  # steps that are also reached from elsewhere
        route[-1]["next"] = {"arcs": [{"step": rng.of(*ahead)}]}
    arcs = [_arc(rng, target) for target in rng.source.sample(targets, rng.number(1, len(targets)))]
    step["loop"]["next"] = {"spec": {"mode": rng.of("exclusive", "inclusive")}, "arcs": arcs}
    return route


def _step(rng: RandomChoices, name: str) -> dict[str, Any]:
    step: dict[str, Any] = {"step": name, "tool": tasks(rng, ["t0", "t1"][: rng.number(1, 2)], bounded=False)}
    if rng.occurs(0.15):
        step["loop"] = random_loop(rng)
        step["loop"].get("spec", {}).pop("frame", None)
    if rng.occurs(0.2):
        step["set"] = {"ctx.kept": "{{ iter.index }}"}
    return step


def _arc(rng: RandomChoices, target: str) -> dict[str, Any]:
    if rng.occurs(0.01 + rng.odd):
        return {"step": target, "when": RAISING}
    return {"step": target, "when": rng.of(*_WHEN)} if rng.occurs(0.5) else {"step": target}
