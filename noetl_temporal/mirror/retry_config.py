"""The ``retry_config`` of rows: the rules that repeat a call, in the shape of the loop-and-retry design.

If a task has a ``retry`` clause, its rows show it as written. If it has policy or case rules, they show
``[{when, then}]``: ``then`` has what a rule changes in the next call, and what it collects.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from noetl_temporal.mirror.payloads import Json

__all__ = ["REPEATS", "config_of_rules", "configs_of_run", "source_value"]

REPEATS = ("retry", "again")
"""The actions that repeat a call: after a failure, after a success."""

_CLAUSE_NAMES = {
    "do": "do",
    "attempts": "max_attempts",
    "backoff": "backoff",
    "delay": "initial_delay",
    "max_delay": "max_delay",
    "patch": "next_call",
    "rebind": "args",
}
"""The names in a ``retry`` clause, by field of a rule."""

_SINKS = ("per_iteration", "sink")
"""Keys of a clause that declare sinks, which have rows of their own."""


def configs_of_run(run_input: dict[str, Json]) -> dict[str, Json]:
    """Return the ``retry_config`` of the tasks that may be repeated, by ``<step>/<task>``."""
    graph = run_input.get("graph", run_input)
    steps = [*graph.get("steps", {}).values(), *([run_input["step"]] if "step" in run_input else [])]
    configs: dict[str, Json] = {}
    for step in steps:
        for task in step.get("tasks", ()):
            config = _config_of(task.get("policy") or {})
            if config:
                configs[f"{step['name']}/{task['label']}"] = config
    return configs


def config_of_rules(rules: Iterable[dict[str, Json]]) -> list[Json]:
    """Return the rules that repeat a call, each as ``{when, then}``."""
    return [
        {"when": _source_text(rule.get("when")), "then": _then_clause(rule)} for rule in rules if rule["do"] in REPEATS
    ]


def source_value(value: Json) -> Json:
    """Return the value of a graph.Value, with its templates as source text."""
    if not isinstance(value, dict):
        return value
    mapping = cast("dict[str, Json]", value)
    return mapping["data"] if mapping.keys() == {"data", "templates"} else mapping


def _config_of(policy: dict[str, Json]) -> Json:
    clause = policy.get("retry_clause")
    return config_of_rules(policy.get("rules", ())) if clause is None else _without_sinks(clause)


def _without_sinks(clause: Json) -> Json:
    if isinstance(clause, list):
        return [_without_sinks(item) for item in cast("list[Json]", clause)]
    if isinstance(clause, dict):
        mapping = cast("dict[str, Json]", clause)
        return {key: _without_sinks(value) for key, value in mapping.items() if key not in _SINKS}
    return clause


def _source_text(when: Json) -> Json:
    return cast("dict[str, Json]", when)["source"] if isinstance(when, dict) else when


def _then_clause(rule: dict[str, Json]) -> Json:
    fields = {word: source_value(rule[field]) for field, word in _CLAUSE_NAMES.items() if rule.get(field) is not None}
    return fields if rule.get("collect") is None else {**fields, "collect": rule["collect"]}
