"""The names profile in the graph decides what templates see; nothing in a run asks for the dialect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Graph, NamesProfile
from noetl_compiler.language.names_profile import PROFILES
from noetl_temporal import machine
from noetl_temporal.machine.call import ToolCall
from tests.machine.activity import Activity
from tests.machine.driver import Run, run_graph

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkload: {two: [1, 2]}\nworkflow:\n"
VISIBLE_NAMES = {
    "step.name": "{{ step.name | default('unbound') }}",
    "steps": "{{ steps is defined }}",
    "event": "{{ event is defined }}",
}
TASK = f"""
  - step: start
    tool:
      kind: http
      url: u
      spec:
        policy:
          rules:
            - else: {{then: {{do: continue, set: {{ctx.seen: {json.dumps(VISIBLE_NAMES)}}}}}}}
    next: {{arcs: [{{step: end}}]}}
  - {{step: end, tool: {{kind: noop, result: "{{{{ ctx.seen }}}}"}}}}
"""
LOOP = """
  - step: start
    loop: {in: "{{ workload.two }}", iterator: one}
    tool: {kind: noop, result: "{{ start.result_index | default('unbound') }}"}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, result: "{{ start | list }}"}}
"""
SINK = """
  - step: start
    tool: {kind: http, url: u, sink: {tool: postgres, table: t, args: {a: "{{ result }}"}}}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop}}
"""


def graph_with(names: NamesProfile, workflow: str) -> Graph:
    """A playbook's graph, with a profile other than that of its dialect."""
    return msgspec.structs.replace(compile_or_raise(HEAD + workflow, "p.yaml"), names=names)


def answer(call: ToolCall) -> Any:
    if call.kind == "noop":
        return call.config.get("result")
    return {"status_code": 200, "headers": {}, "url": "u", "elapsed": 1, "data": {"n": 1}}


def run(names: NamesProfile, workflow: str) -> Run:
    return run_graph(graph_with(names, workflow), Activity(answer))


def test_every_dialect_has_a_profile_and_v10_is_the_default() -> None:
    assert PROFILES["v10"] == NamesProfile()
    assert len({msgspec.json.encode(profile) for profile in PROFILES.values()}) == len(PROFILES)


@pytest.mark.parametrize(
    ("names", "visible"),
    [
        (NamesProfile(), {"step.name": "unbound", "steps": False, "event": False}),
        (NamesProfile(outcome="step"), {"step.name": "start", "steps": False, "event": False}),
        (NamesProfile(task_results=True), {"step.name": "unbound", "steps": True, "event": False}),
        (NamesProfile(outcome="call"), {"step.name": "unbound", "steps": False, "event": True}),
    ],
)
def test_the_profile_decides_what_a_rule_sees(names: NamesProfile, visible: dict[str, Any]) -> None:
    assert run(names, TASK).finish.result == visible


@pytest.mark.parametrize(
    ("names", "result"),
    [
        (NamesProfile(listed_results=True), ["unbound", "unbound"]),
        (NamesProfile(listed_results=True, result_index=True), [0, 1]),
    ],
)
def test_the_profile_decides_what_a_loop_gives(names: NamesProfile, result: list[Any]) -> None:
    assert run(names, LOOP).finish.result == result


@pytest.mark.parametrize(
    ("names", "workflow", "expected_names"),
    [
        (NamesProfile(outcome="call"), LOOP, "usual"),
        (NamesProfile(outcome="call"), SINK, "call"),
        (NamesProfile(outcome="step"), TASK, "step"),
        (NamesProfile(), TASK, "usual"),
    ],
)
def test_a_call_is_reported_only_where_its_rules_or_sinks_see_other_names(
    names: NamesProfile, workflow: str, expected_names: str
) -> None:
    call = run(names, workflow).calls[0]
    assert call.names == expected_names
    assert ("names" in msgspec.to_builtins(call)) is (expected_names != "usual")


def test_nothing_in_the_machine_asks_for_the_dialect() -> None:
    sources = {path: path.read_text() for path in Path(machine.__path__[0]).rglob("*.py")}
    assert [path.name for path, text in sources.items() if "dialect" in text] == []
