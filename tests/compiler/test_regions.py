"""Loops over steps, with any routes: a loop that compiles is nested properly, any other is reported."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from hypothesis import given, settings
from hypothesis import strategies as st

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import Severity
from noetl_compiler.graph import Graph

HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\nname: x\nworkflow:\n"


@dataclass
class Wiring:
    """Steps with the ways on from each; ``ends`` has the loop of each end."""

    ways: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    ends: dict[str, str] = field(default_factory=dict[str, str])

    def text(self) -> str:
        return HEAD + "".join(self._step(name, targets) for name, targets in self.ways.items())

    def _step(self, name: str, targets: list[str]) -> str:
        loop = ", loop: {in: [1], iterator: n}" if name in self.ends.values() else ""
        end = f", end_loop: {self.ends[name]}" if name in self.ends else ""
        return f"  - {{step: {name}, next: [{', '.join(targets)}]{loop}{end}}}\n"


@st.composite
def nested_wiring(draw: st.DrawFn) -> Wiring:
    """Well nested: every way leads to a later step of its own level, or to the level's end."""
    wiring = Wiring()

    def level(depth: int, end: str) -> str:
        """Lay out one level; gives its first step."""
        following = [end]
        for _ in range(draw(st.integers(1, 3))):
            name = f"s{len(wiring.ways)}"
            wiring.ways[name] = draw(st.lists(st.sampled_from(following), min_size=1, max_size=2, unique=True))
            if depth and draw(st.booleans()):
                wiring.ends[f"{name}_end"] = name
                wiring.ways[f"{name}_end"] = wiring.ways[name]
                wiring.ways[name] = [level(depth - 1, f"{name}_end")]
            following.append(name)
        return following[-1]

    first = level(2, "end")
    wiring.ways["start"] = [first]
    return wiring


def parts_of(graph: Graph) -> dict[str, set[str]]:
    """The steps of each loop, and under "" those of the workflow itself."""
    regions = {step.name: set(step.loop.region) for step in graph.steps.values() if step.loop}
    return {**regions, "": set(graph.steps).difference(*regions.values())}


def check_nesting(graph: Graph) -> None:
    """Each step at one level, and every way that can be taken within its level."""
    parts = parts_of(graph)
    inside = list(chain.from_iterable(region for loop, region in parts.items() if loop))
    assert len(inside) == len(set(inside)), "a step belongs to two loops"
    owner = {name: loop for loop, region in parts.items() for name in region}
    for step in map(graph.steps.__getitem__, reached_in(graph)):
        assert {owner[arc.target] for arc in step.route.arcs} <= {owner[step.name]}
        if step.loop and step.loop.entry_route:
            assert {owner[arc.target] for arc in step.loop.entry_route.arcs} == {step.name}
            assert owner[step.loop.end] == step.name


def reached_in(graph: Graph) -> set[str]:
    reached_steps: set[str] = set()
    waiting = [graph.entry]
    while waiting:
        name = waiting.pop()
        if name not in reached_steps:
            reached_steps.add(name)
            step = graph.steps[name]
            enter = step.loop.entry_route.arcs if step.loop and step.loop.entry_route else ()
            waiting += [arc.target for arc in (*step.route.arcs, *enter)]
    return reached_steps


@settings(max_examples=200)
@given(nested_wiring())
def test_nested_loops_compile_and_stay_nested(wiring: Wiring) -> None:
    result = compile_text(wiring.text())
    assert result.graph is not None
    check_nesting(result.graph)
    assert {name for name, region in parts_of(result.graph).items() if region and name} == set(wiring.ends.values())


@settings(max_examples=300)
@given(nested_wiring(), st.data())
def test_a_route_to_any_step_is_reported_or_keeps_the_nesting(wiring: Wiring, data: st.DataObject) -> None:
    names = sorted(wiring.ways)
    extra = data.draw(st.sampled_from(names))
    wiring.ways[extra] = [*wiring.ways[extra], data.draw(st.sampled_from([*names, "end"]))]
    result = compile_text(wiring.text())
    if result.graph is not None:
        check_nesting(result.graph)
    else:
        assert Code.REGION_BORDER in {diagnostic.code for diagnostic in result.diagnostics}


@given(st.permutations(["l1", "l2", "a", "b", "e2", "e1", "start"]))
def test_the_order_of_the_text_decides_nothing(order: list[str]) -> None:
    ways = {"start": ["l1"], "l1": ["a"], "a": ["l2"], "l2": ["b"], "b": ["e2"], "e2": ["e1"], "e1": ["end"]}
    wiring = Wiring({name: ways[name] for name in order}, {"e1": "l1", "e2": "l2"})
    graph = compile_text(wiring.text()).graph
    assert graph is not None
    assert parts_of(graph)["l1"] == {"a", "l2", "e2", "e1/arrival"}
    assert parts_of(graph)["l2"] == {"b", "e2/arrival"}


def test_loops_too_deep_in_each_other_are_refused_before_they_cost_much() -> None:
    depth = 700
    ways = {"start": ["l0"]}
    ways |= {f"l{index}": [f"l{index + 1}"] for index in range(depth - 1)}
    ways |= {f"l{depth - 1}": ["body"], "body": [f"e{depth - 1}"]}
    ways |= {f"e{index}": [f"e{index - 1}"] for index in range(depth - 1, 0, -1)} | {"e0": ["end"]}
    wiring = Wiring(ways, {f"e{index}": f"l{index}" for index in range(depth)})
    (diagnostic,) = (
        diagnostic for diagnostic in compile_text(wiring.text()).diagnostics if diagnostic.severity is Severity.ERROR
    )
    assert diagnostic.code is Code.BUDGET_EXCEEDED
