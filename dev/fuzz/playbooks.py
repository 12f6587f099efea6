"""Generates playbooks whose parts are removed, replaced, exchanged and moved to wrong places."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any, cast

import yaml

from noetl_compiler import compile_text
from noetl_compiler.forecast import forecast
from noetl_compiler.migration import migrate
from noetl_compiler.preview import dot, explain, forecast_table, mermaid, page, svg, tree
from noetl_compiler.source import SourceFile

__all__ = ["check_views", "mutated_seed"]

VALUES: tuple[Any, ...] = (
    *(None, "", 0, -1, 1.5, 10**30, True, [], {}, [[]], [None], {"": 1}, ["a"], {"a": 1}, "x", "end", "😀", "a/b~c"),
    *("{{ x }}", "{{", "{% if %}", "{{ event.name == 'call.done' }}", "{{ 'a' * 10**9 }}"),
    *({"step": "end"}, [{"step": "end"}], {"kind": "http"}, {"when": "{{ x }}", "then": {"do": "retry"}}),
)
KEYS = (
    *(
        "when",
        "then",
        "else",
        "step",
        "next",
        "loop",
        "tool",
        "case",
        "retry",
        "sink",
        "set",
        "with",
        "args",
        "end_loop",
    ),
    *("type", "call", "save", "task", "iterator", "in", "spec", "policy", "rules", "name", "do", "kind", "arcs"),
)
Spot = tuple[Any, Any]
"""A mapping or a list, and a key or an index in it."""


def mutated_seed(rng: random.Random, seeds: list[str]) -> str:
    """One of the seeds after one to three changes of its structure."""
    while True:
        try:
            document: Any = yaml.safe_load(rng.choice(seeds))
        except yaml.YAMLError:
            continue
        for _ in range(rng.randint(1, 3)):
            spots = list(_spots(document))
            if spots:
                _change(rng, rng.choice(spots), rng.choice(spots))
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)


def _spots(node: Any) -> Iterator[Spot]:
    if isinstance(node, dict):
        keys = list(cast("dict[Any, Any]", node))
    else:
        keys = list(range(len(cast("list[Any]", node)))) if isinstance(node, list) else []
    for key in keys:
        yield node, key
        yield from _spots(node[key])


def _change(rng: random.Random, spot: Spot, other: Spot) -> None:
    holder, key = spot
    match rng.randrange(4):
        case 0:
            del holder[key]
        case 1:
            holder[key] = copy.deepcopy(rng.choice(VALUES))
        case 2:
            holder[key] = copy.deepcopy(other[0][other[1]])
        case _ if isinstance(holder, dict):
            holder[rng.choice(KEYS)] = copy.deepcopy(cast("Any", holder)[key])
        case _:
            holder.append(copy.deepcopy(holder[key]))


def check_views(text: str) -> None:
    """Check that a playbook that compiles can be displayed, forecast, and migrated to a form that stays the same."""
    result = compile_text(text, "case.yaml")
    graph = result.graph
    if graph is None:
        return
    cost_forecast = forecast(graph)
    for show in (tree, mermaid, dot, svg):
        show(graph)
    forecast_table(cost_forecast)
    page(graph, cost_forecast, result.diagnostics)
    explain(graph, graph.entry)
    migrated = migrate(SourceFile("case.yaml", text))
    assert not migrated.defect, migrated.defect
    if migrated.text is not None:
        assert migrate(SourceFile("case.yaml", migrated.text)).text == migrated.text, "a migrated playbook migrates on"
