"""The rules that repeat a call, as its rows show them, in the shape of the loop-and-retry design.

Where a playbook has a ``retry`` clause, its rows show the clause as written; where it has policy rules or case rules,
they show ``[{when, then}]`` with what the rules add to the next call and collect.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from noetl_temporal.mirror.payloads import Json

__all__ = ["REPEATS", "config_of_rules", "configs_of_run", "written"]

REPEATS = ("retry", "again")
"""The actions that call the tool again: after a failure, after a success."""

_WORDS = {
    "do": "do",
    "attempts": "max_attempts",
    "backoff": "backoff",
    "delay": "initial_delay",
    "max_delay": "max_delay",
    "patch": "next_call",
    "rebind": "args",
}
"""Fields of a rule, as ``retry`` calls them."""

_SINKS = ("per_iteration", "sink")
"""Keys of a clause that store something, which have rows of their own."""


def configs_of_run(given: dict[str, Json]) -> dict[str, Json]:
    """``retry_config`` of the tasks that may be repeated, by ``<step>/<task>``. ``given`` is the input of the run."""
    around = given.get("graph", given)
    steps = [*around.get("steps", {}).values(), *([given["step"]] if "step" in given else [])]
    configs: dict[str, Json] = {}
    for step in steps:
        for task in step.get("tasks", ()):
            config = _config_of(task.get("policy") or {})
            if config:
                configs[f"{step['name']}/{task['label']}"] = config
    return configs


def config_of_rules(rules: Iterable[dict[str, Json]]) -> list[Json]:
    """Return the rules that repeat a call."""
    return [{"when": _source(rule.get("when")), "then": _then(rule)} for rule in rules if rule["do"] in REPEATS]


def written(value: Json) -> Json:
    """Return what a graph.Value says, with its templates as text."""
    if not isinstance(value, dict):
        return value
    mapping = cast("dict[str, Json]", value)
    return mapping["data"] if mapping.keys() == {"data", "templates"} else mapping


def _config_of(policy: dict[str, Json]) -> Json:
    clause = policy.get("clause")
    return config_of_rules(policy.get("rules", ())) if clause is None else _without_sinks(clause)


def _without_sinks(clause: Json) -> Json:
    if isinstance(clause, list):
        return [_without_sinks(item) for item in cast("list[Json]", clause)]
    if isinstance(clause, dict):
        mapping = cast("dict[str, Json]", clause)
        return {key: _without_sinks(value) for key, value in mapping.items() if key not in _SINKS}
    return clause


def _source(when: Json) -> Json:
    return cast("dict[str, Json]", when)["source"] if isinstance(when, dict) else when


def _then(rule: dict[str, Json]) -> Json:
    fields = {word: written(rule[field]) for field, word in _WORDS.items() if rule.get(field) is not None}
    return fields if rule.get("collect") is None else {**fields, "collect": rule["collect"]}
