"""What cannot be run is told before a run, each at its place."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from noetl_activities.tool import BUILT_IN, tool_names
from noetl_compiler import compile_or_raise
from noetl_temporal.unsupported import tools_for, unsupported

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n"
KEYCHAIN = "keychain: [{name: key, kind: static}]\n"
TOOLS = ("http", "noop", "postgres", "python")
CURSOR = '{cursor: {kind: postgres, auth: a, claim: "SELECT 1"}, iterator: row}'
REGION = "  next: {arcs: [{step: inside}]}\n- {step: inside, tool: {kind: noop}, next: {arcs: [{step: done}]}}\n"


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [
        ("- step: start\n  tool: {kind: shell, cmds: ls}\n", "6:9: error: there is no tool 'shell' here"),
        ("- step: start\n  tool: {kind: playbook, path: a/b}\n", "6:9: error: there is no tool 'playbook' here"),
        (f"- step: start\n  loop: {CURSOR}\n  tool: {{kind: noop}}\n", "6:9: error: cursor loops cannot run yet"),
        (
            f"- step: start\n  loop: {{in: [1], iterator: i}}\n{REGION}- {{step: done, spec: {{end_loop: start}}}}\n",
            "6:9: error: loops over several steps cannot run yet",
        ),
        (
            "- step: start\n  tool: {kind: noop, sink: {kind: http, url: u}}\n",
            "6:28: error: there is no sink 'http'",
        ),
        (
            "- step: start\n  tool: {kind: noop, spec: {policy: {circuit: {failures: 3}, on_unmatched: fail}}}\n",
            "6:47: error: circuit breakers cannot run yet",
        ),
        (
            "- step: start\n  tool: {kind: python, script: {uri: a.py, source: {type: file}}}\n",
            "6:9: error: code that lies elsewhere cannot be fetched yet",
        ),
        (
            f"- step: start\n  tool: {{kind: noop, message: '{{{{ keychain.key.token }}}}'}}\n{KEYCHAIN}",
            '6:32: error: secrets of the keychain cannot be read yet, and this template reads "keychain"',
        ),
        (
            f"- step: start\n  tool: {{kind: noop, message: '{{{{ key.token }}}}'}}\n{KEYCHAIN}",
            '6:32: error: secrets of the keychain cannot be read yet, and this template reads "key"',
        ),
    ],
)
def test_what_cannot_run_is_refused_at_its_place(workflow: str, expected: str) -> None:
    [found] = unsupported(compile_or_raise(f"{HEAD}workflow:\n{workflow}", "p"), TOOLS)
    assert found.startswith(f"p:{expected}")


def test_a_keychain_that_no_template_reads_keeps_nothing_from_running() -> None:
    graph = compile_or_raise(f"{HEAD}{KEYCHAIN}workflow: [{{step: start, tool: {{kind: noop}}}}]\n")
    assert unsupported(graph, TOOLS) == []


FRAMED = "- step: start\n  loop: {in: [1], iterator: i, frame: {}}\n  tool: {kind: noop, spec: SPEC}\n"


def test_a_frame_needs_a_store() -> None:
    graph = compile_or_raise(f"{HEAD}workflow:\n{FRAMED.replace('SPEC', '{}')}", "p")
    assert unsupported(graph, TOOLS) == []
    [found] = unsupported(graph, TOOLS, has_store=False)
    assert found.startswith("p:6:39: error: a frame keeps what it has done in Postgres: set NOETL_POSTGRES")


def test_a_call_that_may_not_be_repeated_is_not_framed() -> None:
    graph = compile_or_raise(f"{HEAD}workflow:\n{FRAMED.replace('SPEC', '{idempotent: false}')}", "p")
    [found] = unsupported(graph, TOOLS)
    assert found.startswith("p:7:9: error: a call that may not be repeated (idempotent: false) cannot run in a frame")


def test_the_built_in_tools_are_those_that_this_distribution_registers() -> None:
    ours = {point.name for point in entry_points(group="noetl.tools") if point.value.startswith("noetl_activities.")}
    assert ours == BUILT_IN <= tool_names()


@pytest.mark.parametrize(
    ("tool", "known"), [("{kind: noop}", BUILT_IN), ("{kind: shell, cmds: ls}", frozenset({"noop", "shell"}))]
)
def test_other_tools_are_looked_for_where_the_playbook_asks_for_one(
    tool: str, known: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl_temporal.unsupported.tool_names", lambda: frozenset({"noop", "shell"}))
    graph = compile_or_raise(f"{HEAD}workflow:\n- {{step: start, tool: {tool}}}\n", "x.yaml")
    assert tools_for(graph) == known
