"""Whatever cannot run is reported before a run, each at its place."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from noetl_activities.tool import BUILT_IN, tool_kinds
from noetl_compiler import compile_or_raise, compile_text
from noetl_compiler.codes import Code
from noetl_compiler.pinning import pin_graphs
from noetl_temporal.submission.unsupported import available_tools, check_calls, unsupported_uses

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\n"
KEYCHAIN = "keychain: [{name: key, kind: static}]\n"
TOOLS = ("artifact", "http", "noop", "postgres", "python")
CURSOR = '{cursor: {kind: duckdb, auth: a, claim: "SELECT 1"}, iterator: row}'


REFUSALS = [
    (
        "- step: start\n  tool: {kind: rhai, code: x}\n",
        '6:9: error: tool kind "rhai" is not supported: there is no maintained interpreter',
    ),
    (
        f"- step: start\n  loop: {CURSOR}\n  tool: {{kind: noop}}\n",
        "6:9: error: a cursor cannot claim rows of duckdb: only one process at a time can open the file",
    ),
    (
        f"- step: start\n  loop: {CURSOR.replace('duckdb', 'mysql')}\n  tool: {{kind: noop}}\n",
        "6:9: error: a cursor claims rows of postgres only: write kind: postgres, or read the rows",
    ),
    (
        "- step: start\n  tool: {kind: noop, sink: {kind: gcs, url: u}}\n",
        "6:28: error: there is no sink 'gcs'",
    ),
    (
        "- step: start\n  tool: {kind: artifact, action: get, input: {result_ref: r}}\n",
        "6:9: error: a result has no reference by which an artifact task could fetch it",
    ),
]


@pytest.mark.parametrize(("workflow", "expected"), REFUSALS)
def test_unsupported_parts_are_refused_at_their_position(workflow: str, expected: str) -> None:
    [refusal] = unsupported_uses(compile_or_raise(f"{HEAD}workflow:\n{workflow}", "p"), TOOLS)
    assert refusal.startswith(f"p:{expected}")


@pytest.mark.parametrize("workflow", [workflow for workflow, _ in REFUSALS], ids=[expected for _, expected in REFUSALS])
def test_unsupported_parts_are_warnings_of_the_compiler(workflow: str) -> None:
    [diagnostic] = compile_text(f"{HEAD}workflow:\n{workflow}", "p").diagnostics
    assert diagnostic.code is Code.NO_EXECUTOR
    assert diagnostic.message.endswith(": the playbook compiles, but a run is refused")


@pytest.mark.parametrize("read", ["keychain.key.token", "key.token"])
def test_secrets_of_the_keychain_run(read: str) -> None:
    workflow = f"- step: start\n  tool: {{kind: noop, message: '{{{{ {read} }}}}'}}\n{KEYCHAIN}"
    result = compile_text(f"{HEAD}workflow:\n{workflow}", "p")
    assert result.graph is not None
    assert (result.diagnostics, unsupported_uses(result.graph, TOOLS)) == ((), [])


def test_the_built_in_tools_are_those_that_this_distribution_registers() -> None:
    ours = {point.name for point in entry_points(group="noetl.tools") if point.value.startswith("noetl_activities.")}
    assert ours == BUILT_IN <= tool_kinds()


@pytest.mark.parametrize(
    ("tool", "tools"), [("{kind: noop}", BUILT_IN), ("{kind: rhai, code: x}", frozenset({"noop", "rhai"}))]
)
def test_other_tools_are_looked_for_where_the_playbook_asks_for_one(
    tool: str, tools: frozenset[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl_temporal.submission.unsupported.tool_kinds", lambda: frozenset({"noop", "rhai"}))
    graph = compile_or_raise(f"{HEAD}workflow:\n- {{step: start, tool: {tool}}}\n", "x.yaml")
    assert available_tools(graph) == tools


def test_playbooks_to_call_need_a_store_where_they_are_large() -> None:
    """Each call would carry them."""
    child = compile_or_raise(
        f"{HEAD}workflow: [{{step: start, tool: {{kind: noop, message: {'x' * 200_000}}}}}]\n", "c"
    )
    graph = compile_or_raise(f"{HEAD}workflow: [{{step: start, tool: {{kind: playbook, path: c}}}}]\n", "p")
    calls = pin_graphs([("c", child)])
    assert check_calls(graph, calls, TOOLS)[1] == []
    [refusal] = check_calls(graph, calls, TOOLS, has_store=False)[1]
    assert "set NOETL_POSTGRES" in refusal


def test_a_playbook_that_only_a_template_may_name_is_refused_when_it_is_called() -> None:
    child = compile_or_raise(f"{HEAD}workflow: [{{step: start, tool: {{kind: shell, cmds: ls}}}}]\n", "c")
    graph = compile_or_raise(
        f"{HEAD}workflow: [{{step: start, tool: {{kind: playbook, path: '{{{{ payload.p }}}}'}}}}]\n", "p"
    )
    calls, problems = check_calls(graph, pin_graphs([("c", child)]), TOOLS)
    assert problems == []
    assert "there is no tool 'shell' here" in calls.problems[child.digest]
