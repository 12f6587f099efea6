"""Pictures of a graph: well-formed, complete, nothing on top of anything else, whatever the names are."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler import compile_or_raise
from noetl_compiler.forecast import forecast
from noetl_compiler.graph import Arc, Graph, Loop, Route, SourceRef, Span, Step, Template, Value, seal
from noetl_compiler.preview import dot, page, svg
from noetl_compiler.preview.arrows import Arrow
from noetl_compiler.preview.forecast_table import forecast_cells
from noetl_compiler.preview.geometry import NO_LABEL, Box, Curve, Size
from noetl_compiler.preview.layers import lay_out

SPAN = Span(1, 1, 1, 2)
SVG = "{http://www.w3.org/2000/svg}"
FOLDER = Path(__file__).parents[2] / "dev" / "examples"
EXAMPLES = sorted(set(FOLDER.glob("*.yaml")) - set(FOLDER.glob("*.test.yaml")))


def graph_of(*steps: Step, name: str = "p") -> Graph:
    source = SourceRef("p.yaml", "p", name, "", "v10")
    return seal(Graph(1, "", source, steps[0].name, "end", {step.name: step for step in (*steps, Step("end", SPAN))}))


def step_leading_to(name: str, *targets: str) -> Step:
    return Step(name, SPAN, route=Route("inclusive", arcs=tuple(Arc(target, SPAN) for target in targets)))


Rectangle = tuple[float, float, float, float]


def rectangle(box: Box) -> Rectangle:
    return box.x - box.width / 2, box.y, box.x + box.width / 2, box.y + box.height


def overlap(rectangle: Rectangle, other: Rectangle) -> bool:
    return rectangle[0] < other[2] and other[0] < rectangle[2] and rectangle[1] < other[3] and other[1] < rectangle[3]


def stretches(curve: Curve) -> Iterator[Rectangle]:
    """The straight parts of a curve; its curves lie between two rows, where no box is."""
    for (x, y), (to, down) in pairwise(curve.points):
        if x == to or y == down:
            yield min(x, to) - 1, min(y, down) - 1, max(x, to) + 1, max(y, down) + 1


NAMES = st.integers(0, 8).map(str)
PAIRS = st.lists(st.tuples(NAMES, NAMES, st.sampled_from([NO_LABEL, (40.0, 16.0), (200.0, 90.0)])), max_size=20)


def place_graph(pairs: list[tuple[str, str, Size]]) -> tuple[list[Box], list[Curve], list[Rectangle]]:
    """Boxes, curves and the places of labels."""
    sizes = {str(number): (60.0 + 10 * number, 20.0 + 5 * number) for number in range(9)}
    arrows = [Arrow(start, end, f"label {index}") for index, (start, end, _) in enumerate(pairs)]
    boxes, curves = lay_out(sizes, arrows, [size for *_, size in pairs])
    assert [box.name for box in boxes] == list(sizes)
    assert sorted(curve.arrow for curve in curves) == sorted(arrows)
    sizes_by_label = {arrow.label: size for arrow, (*_, size) in zip(arrows, pairs, strict=True)}
    labels = [(*curve.label, *sizes_by_label[curve.arrow.label]) for curve in curves if curve.label]
    assert len(labels) == sum(size != NO_LABEL for size in sizes_by_label.values())
    return boxes, curves, [(x - w / 2, y - h / 2, x + w / 2, y + h / 2) for x, y, w, h in labels]


@given(PAIRS)
def test_nothing_overlaps_a_box(pairs: list[tuple[str, str, Size]]) -> None:
    boxes, _, labels = place_graph(pairs)
    assert not any(overlap(rectangle(left), rectangle(other)) for left, other in combinations(boxes, 2))
    assert not any(overlap(rectangle(box), label) for box in boxes for label in labels)


@given(PAIRS)
def test_no_label_overlaps_that_of_another_arrow(pairs: list[tuple[str, str, Size]]) -> None:
    down = [(start, end, size) for start, end, size in pairs if int(start) < int(end)]
    *_, labels = place_graph(down)
    assert not any(overlap(left, other) for left, other in combinations(labels, 2))


@given(PAIRS)
def test_drawn_routes_lead_down_or_back_and_cross_no_box(pairs: list[tuple[str, str, Size]]) -> None:
    boxes, curves, _ = place_graph(pairs)
    for curve in curves:
        ends = curve.points[0][1], curve.points[-1][1]
        assert curve.is_back or ends[0] < ends[1]
        others = [rectangle(box) for box in boxes if box.name not in (curve.arrow.start, curve.arrow.end)]
        assert not any(overlap(part, box) for part in stretches(curve) for box in others)


def test_a_large_picture_has_points_in_proportion_to_its_steps() -> None:
    sizes = {str(number): (100.0, 40.0) for number in range(2_000)}
    chain = [Arrow(str(number), str(number + 1)) for number in range(1_999)]
    ends = [Arrow(str(number), "1999", "otherwise") for number in range(1_998)]
    boxes, curves = lay_out(sizes, [*chain, *ends], [NO_LABEL] * len(chain) + [(60.0, 16.0)] * len(ends))
    assert sum(len(curve.points) for curve in curves) < 20 * len(boxes)
    assert max(box.x for box in boxes) - min(box.x for box in boxes) < 100


def test_a_loop_of_arcs_is_drawn_as_leading_back() -> None:
    graph = graph_of(step_leading_to("a", "b"), step_leading_to("b", "a", "end"))
    tree = ElementTree.fromstring(svg(graph))
    paths = [path for path in tree.iter(f"{SVG}path") if path.get("marker-end")]
    assert len(paths) == 3
    assert sum("Q" in path.get("d", "") for path in paths) == 1


@pytest.mark.parametrize("name", ['"]', "<script>alert(1)</script>", "a&b", "a\\", "日本", "\x1b[2J", "]]>", "{{ x }}"])
def test_no_name_breaks_a_picture(name: str) -> None:
    when = Arc("end", SPAN, when=Template(name, SPAN))
    graph = graph_of(Step(name, SPAN, desc=name, route=Route(arcs=(when,))), name=name)
    tree = ElementTree.fromstring(svg(graph))
    assert not list(tree.iter(f"{SVG}script"))
    assert "<script>" not in page(graph, forecast(graph))
    assert not set('"\\<') & set(re.sub(r'"(?:[^"\\]|\\.)*"', "", dot(graph)))


LONG = " and ".join(f"workload.value_{number} in ['one', 'two words']" for number in range(12))
LONG_CONDITION = f"{{{{ {LONG} }}}}"


def test_a_condition_is_whole_and_wrapped_between_its_tokens() -> None:
    arcs = (Arc("b", SPAN, when=Template(LONG_CONDITION, SPAN)), Arc("a", SPAN, when=Template(LONG_CONDITION, SPAN)))
    tree = ElementTree.fromstring(svg(graph_of(Step("a", SPAN, route=Route(arcs=arcs)), step_leading_to("b", "end"))))
    groups = [group for group in tree.iter(f"{SVG}g") if group.get("class") == "label"]
    labels = [group for group in groups if "otherwise" not in "".join(group.itertext())]
    assert len(labels) == 2
    for label in labels:
        rows = [str(text.text) for text in label.iter(f"{SVG}text")]
        assert " ".join(rows) == LONG
        assert max(map(len, rows)) <= 44
        plate = next(label.iter(f"{SVG}rect"))
        assert float(plate.get("height", "0")) >= 14 * len(rows)
    _, top, _, height = map(float, tree.get("viewBox", "").split())
    plates = [(float(rect.get("y", "0")), float(rect.get("height", "0"))) for rect in tree.iter(f"{SVG}rect")]
    assert all(top < y and y + size < top + height for y, size in plates)


def test_a_page_does_not_break_a_template_across_lines() -> None:
    text = (
        "metadata: {name: x}\nworkflow:\n  - step: start\n"
        "    tool: {kind: postgres, query: q, auth: 'pg_{{ payload.of < 1 }}'}\n"
    )
    graph = compile_or_raise(text)
    html = page(graph, forecast(graph))
    assert "<p>credentials: pg_<span>{{ payload.of &lt; 1 }}</span></p>" in html
    assert "header p span, li code span { white-space: nowrap }" in html


def test_the_table_of_a_page_says_what_its_forecast_assumes() -> None:
    graph = graph_of(step_leading_to("a", "end"))
    html = page(graph, forecast(graph))
    assert f"<caption>{escape(forecast_cells(forecast(graph)).assumptions)}</caption>" in html


def test_the_route_of_otherwise_is_labelled() -> None:
    rest_arc = Arc("c", SPAN)
    arcs = (Arc("b", SPAN, when=Template("{{ x }}", SPAN)), rest_arc)
    others = (step_leading_to("b", "end"), step_leading_to("c", "end"))
    assert 'label="otherwise"' in dot(graph_of(Step("a", SPAN, route=Route(arcs=arcs)), *others))
    assert ">otherwise</text>" in svg(graph_of(Step("a", SPAN, route=Route(arcs=arcs)), *others))
    inclusive = Route("inclusive", on_no_match="quiet", arcs=arcs)
    assert "otherwise" not in dot(graph_of(Step("a", SPAN, route=inclusive), *others))


def test_text_has_no_stroke_which_some_renderers_draw_over_it() -> None:
    picture = svg(graph_of(step_leading_to("a", "end")))
    style = picture[picture.index("<style>") : picture.index("</style>")]
    assert "paint-order" not in picture
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", style)
    assert rules
    assert [
        selector
        for selector, body in rules
        if re.search(r"text|label(?! rect)|name|more", selector) and "stroke" in body
    ] == []


def test_a_loop_and_its_region_are_distinguished() -> None:
    loop = Loop("city", SPAN, collection=Value([1]), region=("b",), entry_route=Route(arcs=(Arc("b", SPAN),)), end="b")
    graph = graph_of(Step("a", SPAN, loop=loop), step_leading_to("b", "end"))
    assert 'subgraph cluster_n0 { label="each city"; n1 }' in dot(graph)
    assert 'n0 -> n1 [label="each", style=bold]' in dot(graph)
    assert 'class="step terminal loop"' in svg(graph)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_page_needs_nothing_from_outside_and_has_every_step(path: Path) -> None:
    graph = compile_or_raise(path.read_text(encoding="utf-8"), str(path))
    html = page(graph, forecast(graph))
    assert "<script" not in html
    assert not re.search(r"src=|@import|url\((?!#tip\))|https?://(?!www\.w3\.org/2000/svg)", html)
    links, ids = re.findall(r'href="#([^"]+)"', html), re.findall(r' id="(step-[^"]+)"', html)
    assert links == ids
    assert len(ids) == len(graph.steps)
