"""What a step becomes and why: every part with its place and the words of its dialect that it was made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_compiler import compile_file
from noetl_compiler.graph import Graph
from noetl_compiler.preview import KeyPathLookup, explain
from noetl_compiler.reader import read, read_file

OK = Path(__file__).parent / "corpus/ok"
FOLDER = Path(__file__).parents[2] / "dev"
EXAMPLES = sorted(set(FOLDER.glob("*examples/*.yaml")) - set(FOLDER.glob("*examples/*.test.yaml")))


def graph_of(path: Path) -> Graph:
    graph = compile_file(path).graph
    assert graph is not None
    return graph


def explanation_of(name: str, step: str) -> str:
    path = OK / f"{name}.yaml"
    source, _ = read_file(path)
    return explain(graph_of(path), step, KeyPathLookup(read(source)[0]))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_explanation_cites_the_place_of_each_part(path: Path) -> None:
    graph = graph_of(path)
    for step in graph.steps.values():
        text = explain(graph, step.name)
        assert f"{path}:{step.span.line}:{step.span.col}" in text
        for task in step.tasks:
            assert f"{task.label}: an activity noetl.{task.kind}" in text
            assert f"line {task.span.line}" in text
        for arc in step.route.arcs:
            assert f"-> {arc.target}" in text


@pytest.mark.parametrize(
    ("name", "step", "line"),
    [
        ("v10_output", "fetch", "on 429/503  line 24, tool[0].spec.policy.rules[0].then"),
        ("v10_output", "fetch", "failed iterations do not fail the step  line 10, loop"),
        ("case_calls", "start", "on 502/503  line 13, case[0]"),
        ("case_calls", "start", "-> ask when event.name == 'call.done'  line 25, case[2].then.next[0]"),
        ("case_calls", "start", "passes items = start"),
        ("case_calls", "ask", "items is bound to the value that the incoming route passes"),
        ("case_calls", "start", "at most 300 s: a timer, then an error of kind timeout"),
        ("case_loop", "start", "an item continues -> warn when event.name == 'step.exit' and response.status == 200"),
        ("case_loop", "start", "on entering, sets ctx.hot = []"),
        ("legacy_pages", "bodies", "while response.paging.hasMore  line 13, loop.pagination"),
        ("v1_regions", "city_loop", "an iteration starts at measure and ends at end_city_loop/arrival"),
        ("v1_regions", "visit", "runs in the workflow of the loop district_loop, for each district"),
        ("v1_regions", "end_city_loop/arrival", "every branch of an iteration ends here"),
        ("v1_regions", "measure/then_1", "has several targets, this step leads to all"),
        ("v1_iterators", "start", "-> squares  line 9, next[0]"),
    ],
)
def test_a_part_reports_what_it_was_made_of(name: str, step: str, line: str) -> None:
    assert line in explanation_of(name, step)


def test_internal_variables_are_not_explained() -> None:
    for path in OK.glob("*.yaml"):
        graph = graph_of(path)
        for step in graph.steps:
            text = explain(graph, step)
            assert "ctx._passed" not in text


def test_a_variable_of_the_author_is_not_taken_for_what_the_compiler_notes(tmp_path: Path) -> None:
    """The compiler keeps arguments under ``ctx._passed``, and an author may call a variable so."""
    path = tmp_path / "x.yaml"
    path.write_text(
        "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n"
        "  - step: start\n    tool: {kind: noop, set: {ctx.chosen: a}}\n"
        "    next: {arcs: [{step: end, when: \"{{ ctx.chosen == 'a' and output.status == 'ok' }}\","
        " input: {one: '{{ ctx.chosen }}', two: '{{ ctx.passed }}'}}]}\n"
        "  - step: end\n    tool: {kind: noop}\n"
    )
    start = explain(graph_of(path), "start")
    assert "-> end when ctx.chosen == 'a' and output.status == 'ok'" in start
    assert "passes one = ctx.chosen" in start
    assert "passes two = ctx.passed" in start
