"""``spec.idempotency_key`` in every dialect and every spec, and what cannot be a header."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_or_raise, compile_text
from noetl_compiler.codes import Code
from noetl_compiler.migration import migrate
from noetl_compiler.source import SourceFile

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: keys}\n"
KEY = "spec: {idempotency_key: X-Key}"
HTTP = "kind: http, url: 'http://x'"

V10 = f"{HEAD}workflow:\n- step: start\n  tool: {{{HTTP}, {KEY}}}\n"
BESIDE = (
    f"{HEAD}workflow:\n- step: start\n  tool:\n    kind: http\n    spec: {{idempotency_key: X-Key, url: 'http://x'}}\n"
)
CASE = f"""{HEAD}workflow:
- step: start
  tool: {{{HTTP}, {KEY}}}
  case: [{{when: "{{{{ event.name == 'call.done' }}}}", then: {{next: [{{step: end}}]}}}}]
- step: end
"""
V1 = f"""apiVersion: noetl.io/v1
kind: Playbook
metadata: {{name: keys, path: keys}}
workflow:
- step: start
  type: http
  endpoint: http://x
  {KEY}
  next: [{{step: end}}]
- step: end
"""
LEGACY = f"""apiVersion: noetl.io/v1
kind: Playbook
metadata: {{name: keys}}
workflow:
- {{step: start, tool: http, url: 'http://x', {KEY}, retry: 2, next: end}}
- {{step: end}}
"""
WORKBOOK = f"""{HEAD}workbook: [{{name: pay, tool: {{{HTTP}, {KEY}}}}}]
workflow: [{{step: start, tool: {{kind: workbook, name: pay}}}}]
"""


def key_of(text: str, index: int = 0) -> str | None:
    return compile_or_raise(text).steps["start"].tasks[index].idempotency_key


@pytest.mark.parametrize(
    ("dialect", "text"),
    [("v10", V10), ("v10", BESIDE), ("case", CASE), ("v1", V1), ("legacy", LEGACY), ("v10", WORKBOOK)],
)
def test_every_dialect_accepts_an_idempotency_key(dialect: str, text: str) -> None:
    graph = compile_or_raise(text)
    assert graph.source.dialect == dialect
    assert key_of(text) == "X-Key"
    migrated_text = migrate(SourceFile("p.yaml", text)).text
    assert migrated_text is not None
    assert key_of(migrated_text) == "X-Key"


@pytest.mark.parametrize("around", ["executor", "step", "loop"])
def test_a_spec_around_calls_applies_to_those_that_send_headers(around: str) -> None:
    fields = {layer: KEY if layer == around else "spec: {}" for layer in ("executor", "step", "loop")}
    text = (
        f"{HEAD}executor: {{{fields['executor']}}}\nworkflow:\n- step: start\n  {fields['step']}\n"
        f"  loop: {{in: [1], iterator: item, {fields['loop']}}}\n"
        f"  tool: [a: {{{HTTP}}}, b: {{kind: python, code: 'result = 1'}}, "
        f"c: {{{HTTP}, spec: {{idempotency_key: Other}}}}]\n"
    )
    result = compile_text(text)
    assert [key_of(text, index) for index in range(3)] == ["X-Key", None, "Other"]
    assert not [diagnostic for diagnostic in result.diagnostics if diagnostic.code is Code.IGNORED_FIELD]


def test_an_idempotency_key_of_a_call_without_headers_has_no_effect() -> None:
    text = f"{HEAD}workflow:\n- step: start\n  tool: {{kind: python, code: 'result = 1', {KEY}}}\n"
    [diagnostic] = [
        diagnostic for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.IGNORED_FIELD
    ]
    assert (diagnostic.span.line, diagnostic.span.col) == (6, 51)
    assert diagnostic.hint == "only http calls send headers, and this is a python call"
    assert key_of(text) is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("'two words'", '"two words" is not the name of a header'),
        ("'X-Key: 1'", '"X-Key: 1" is not the name of a header'),
        ("'{{ workload.header }}'", '"{{ workload.header }}" is not the name of a header'),
        ("7", '"7" is not the name of a header'),
        ("Authorization", 'the header "Authorization" cannot carry a key'),
        ("content-length", 'the header "content-length" cannot carry a key'),
        ("[a]", '"idempotency_key" must be a string, not a list'),
    ],
)
@pytest.mark.parametrize("place", ["task", "step"])
def test_a_bad_header_is_reported_at_its_place(place: str, name: str, message: str) -> None:
    spec = f"spec: {{idempotency_key: {name}}}"
    step, task = (spec, "") if place == "step" else ("spec: {}", f", {spec}")
    result = compile_text(f"{HEAD}workflow:\n- step: start\n  {step}\n  tool: {{{HTTP}{task}}}\n")
    [diagnostic] = result.diagnostics
    line = 6 if place == "step" else 7
    assert (diagnostic.message, diagnostic.span.line) == (message, line)
    assert result.source.text.splitlines()[line - 1][diagnostic.span.col - 1 :].startswith(name)
    assert result.graph is None
