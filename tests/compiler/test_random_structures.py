"""Whatever the YAML, the compiler answers with a graph or with errors, never with a traceback."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl_compiler import compile_text
from noetl_compiler.diagnostics import Severity
from noetl_compiler.graph import decode, encode

KEYS = [
    "step",
    "tool",
    "kind",
    "name",
    "next",
    "loop",
    "retry",
    "sink",
    "vars",
    "args",
    "input",
    "set",
    "set_ctx",
    "spec",
    "policy",
    "rules",
    "when",
    "then",
    "else",
    "do",
    "to",
    "attempts",
    "delay",
    "backoff",
    "on_error",
    "on_success",
    "while",
    "collect",
    "next_call",
    "per_iteration",
    "strategy",
    "path",
    "into",
    "in",
    "iterator",
    "collection",
    "element",
    "mode",
    "cursor",
    "claim",
    "arcs",
    "auth",
    "timeout",
    "url",
    "code",
    "command",
    "workbook",
    "task",
    "tasks",
    "executor",
    "entry_step",
    "final_step",
    "workload",
    "workflow",
    "metadata",
    "kind",
    "admit",
    "allow",
    "table",
    "key",
    "statement",
    "join",
    "max_in_flight",
    "result",
    "output",
    "data",
    "type",
    "call",
    "end_loop",
    "with",
    "save",
    "storage",
    "pass",
]
WORDS = [
    "start",
    "end",
    "a",
    "b",
    "http",
    "python",
    "postgres",
    "noop",
    "workbook",
    "playbook",
    "agent",
    "shell",
    "continue",
    "retry",
    "jump",
    "break",
    "fail",
    "previous",
    "parallel",
    "sequential",
    "exclusive",
    "inclusive",
    "append",
    "insert",
    "30s",
    "5m",
]
TEMPLATES = ["{{ a }}", "{{ error.kind }}", "{{", "x {{ b.c }} {% if d %}", "{{.ID}}", "{{ a | nope }}"]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 100),
    st.floats(0, 9),
    st.sampled_from(WORDS + TEMPLATES),
    st.text(max_size=5),
)
keys = st.one_of(st.sampled_from(KEYS), st.text(max_size=4))
structures: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=25,
)


tools = st.one_of(
    st.sampled_from(WORDS),
    st.dictionaries(keys, structures, max_size=4).flatmap(
        lambda fields: st.sampled_from(WORDS).map(lambda kind: {"kind": kind, **fields})
    ),
    st.lists(structures, max_size=3),
)


def step_of(name: str, key: str, tool: Any, fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "step": name, key: tool}


def playbook_of(workflow: list[Any], other_keys: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"name": "x"}, **other_keys, "workflow": workflow}


steps = st.builds(
    step_of,
    st.sampled_from(["start", "a", "b", "end"]),
    st.sampled_from(["tool", "type", "call"]),
    tools,
    st.dictionaries(keys, structures, max_size=4),
)
playbooks = st.builds(
    playbook_of,
    st.lists(steps | structures, max_size=4),
    st.dictionaries(
        st.sampled_from(["executor", "workload", "workbook", "keychain", "spec", "kind"]),
        structures,
        max_size=3,
    ),
)


@settings(max_examples=250)
@given(structures | playbooks)
def test_the_compiler_never_raises(document: Any) -> None:
    result = compile_text(yaml.safe_dump(document, allow_unicode=True))
    errors = [diagnostic for diagnostic in result.diagnostics if diagnostic.severity is Severity.ERROR]
    assert (result.graph is None) == bool(errors)
    if result.graph is not None:
        assert decode(encode(result.graph)) == result.graph
