"""Random routes of the items of loops, and the steps on them."""

from __future__ import annotations

from typing import Any

from dev.simulate.tasks import RAISING, Chance, random_loop, tasks

__all__ = ["item_routes"]

_WHEN = (
    "{{ event.name == 'step.done' }}",
    "{{ event.name == 'step.failed' }}",
    "{{ event.name == 'step.failed' and error.kind == 'server_error' }}",
    "{{ output.data.flag }}",
    "{{ iter.index is even }}",
)


def item_routes(chance: Chance, steps: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    """Give the items of some loops routes, and return the steps on them, to which no other step leads."""
    made: list[dict[str, Any]] = []
    for step in list(steps):
        if "loop" in step and "tool" in step and chance.once(0.4):
            step["loop"].get("spec", {}).pop("frame", None)
            ahead = names[names.index(step["step"]) + 1 :] if step["step"] in names else []
            made += _routes_of(chance, step, f"r{len(made)}", ahead)
    return made


def _routes_of(chance: Chance, step: dict[str, Any], name: str, ahead: list[str]) -> list[dict[str, Any]]:
    route = [_step(chance, f"{name}/{index}") for index in range(chance.number(1, 3))]
    targets = [hop["step"] for hop in route]
    for index, arc in enumerate(route[:-1]):
        if chance.once(0.6):
            arc["next"] = {"arcs": [_arc(chance, target) for target in targets[index + 1 :]]}
    if ahead and chance.once(0.2):  # steps that are also reached from elsewhere
        route[-1]["next"] = {"arcs": [{"step": chance.of(*ahead)}]}
    arcs = [_arc(chance, target) for target in chance.source.sample(targets, chance.number(1, len(targets)))]
    step["loop"]["next"] = {"spec": {"mode": chance.of("exclusive", "inclusive")}, "arcs": arcs}
    return route


def _step(chance: Chance, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"step": name, "tool": tasks(chance, ["t0", "t1"][: chance.number(1, 2)], bounded=False)}
    if chance.once(0.15):
        made["loop"] = random_loop(chance)
        made["loop"].get("spec", {}).pop("frame", None)
    if chance.once(0.2):
        made["set"] = {"ctx.kept": "{{ iter.index }}"}
    return made


def _arc(chance: Chance, target: str) -> dict[str, Any]:
    if chance.once(0.01 + chance.odd):
        return {"step": target, "when": RAISING}
    return {"step": target, "when": chance.of(*_WHEN)} if chance.once(0.5) else {"step": target}
