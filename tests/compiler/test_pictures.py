"""Pictures of a graph: well-formed, complete, nothing on top of anything else, whatever the names are."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler import compile_or_raise
from noetl_compiler.forecast import forecast
from noetl_compiler.graph import Arc, Graph, Loop, Route, SourceRef, Span, Step, Template, Value, seal
from noetl_compiler.preview import dot, explain, page, svg
from noetl_compiler.preview.arrows import Arrow
from noetl_compiler.preview.layers import Box, place

SPAN = Span(1, 1, 1, 2)
SVG = "{http://www.w3.org/2000/svg}"
EXAMPLES = sorted((Path(__file__).parents[2] / "dev" / "examples").glob("*.yaml"))


def graph_of(*steps: Step, name: str = "p") -> Graph:
    source = SourceRef("p.yaml", "p", name, "", "v10")
    return seal(Graph(1, "", source, steps[0].name, "end", {step.name: step for step in (*steps, Step("end", SPAN))}))


def leading(name: str, *targets: str) -> Step:
    return Step(name, SPAN, route=Route("inclusive", arcs=tuple(Arc(target, SPAN) for target in targets)))


def overlap(one: Box, other: Box) -> bool:
    apart = abs(one.x - other.x) >= (one.width + other.width) / 2
    return not apart and one.y < other.y + other.height and other.y < one.y + one.height


NAMES = st.integers(0, 11).map(str)


@given(st.lists(st.tuples(NAMES, NAMES), max_size=30))
def test_no_box_lies_on_another_and_ways_lead_down_or_back(pairs: list[tuple[str, str]]) -> None:
    sizes = {str(number): (60.0 + 10 * number, 20.0 + 5 * number) for number in range(12)}
    arrows = [Arrow(start, end) for start, end in pairs]
    boxes, routes = place(sizes, arrows)
    assert [box.name for box in boxes] == list(sizes)
    assert not any(overlap(one, other) for one, other in combinations(boxes, 2))
    assert sorted(route.arrow for route in routes) == sorted(arrows)
    for route in routes:
        ends = route.points[0][1], route.points[-1][1]
        assert route.back or ends[0] < ends[1]


def test_a_loop_of_arcs_is_drawn_as_leading_back() -> None:
    graph = graph_of(leading("a", "b"), leading("b", "a", "end"))
    tree = ElementTree.fromstring(svg(graph))
    paths = [path for path in tree.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(paths) == 3
    assert sum("L" in path.get("d", "") for path in paths) == 1


@pytest.mark.parametrize("name", ['"]', "<script>alert(1)</script>", "a&b", "a\\", "日本", "\x1b[2J", "]]>", "{{ x }}"])
def test_no_name_breaks_a_picture(name: str) -> None:
    when = Arc("end", SPAN, when=Template(name, SPAN))
    graph = graph_of(Step(name, SPAN, desc=name, route=Route(arcs=(when,))), name=name)
    tree = ElementTree.fromstring(svg(graph))
    assert not list(tree.iter(f"{SVG}script"))
    assert "<script>" not in page(graph, forecast(graph))
    assert not set('"\\<') & set(re.sub(r'"(?:[^"\\]|\\.)*"', "", dot(graph)))


def test_a_loop_and_its_region_are_told_apart() -> None:
    loop = Loop("city", SPAN, collection=Value([1]), region=("b",), enter=Route(arcs=(Arc("b", SPAN),)), end="b")
    graph = graph_of(Step("a", SPAN, loop=loop), leading("b", "end"))
    assert 'subgraph cluster_n0 { label="each city"; n1 }' in dot(graph)
    assert 'n0 -> n1 [label="each", style=bold]' in dot(graph)
    assert 'class="step terminal loop"' in svg(graph)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_page_needs_nothing_from_outside_and_has_every_step(path: Path) -> None:
    graph = compile_or_raise(path.read_text(encoding="utf-8"), str(path))
    html = page(graph, forecast(graph))
    assert "<script" not in html
    assert not {"src=", "href=", "@import", "url(http"} & set(html.split('"'))
    assert html.count("<details>") == len(graph.steps)
    assert svg(graph) in html


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_explanation_cites_the_place_of_each_part(path: Path) -> None:
    graph = compile_or_raise(path.read_text(encoding="utf-8"), str(path))
    for step in graph.steps.values():
        text = explain(graph, step.name)
        assert f"{path}:{step.span.line}:{step.span.col}" in text
        for task in step.tasks:
            assert f"{task.label}: an activity noetl.{task.kind}" in text
            assert f"line {task.span.line}" in text
        for arc in step.route.arcs:
            assert f"-> {arc.to}" in text
