"""One mistake gives one finding: its consequences are not reported."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.source import SourceFile
from tests.compiler.marked import HEAD, steps

A = "{step: a, tool: {kind: noop}}"
LATER = "{step: start, tool: {kind: noop}, next: {arcs: [{step: a}]}}"
UNKNOWN_ENTRY = "executor: {spec: {entry_step: strt}}\n"


def routed_steps(following: str) -> str:
    return f"{{step: start, tool: {{kind: noop}}, {following}}}"


@pytest.mark.parametrize(
    ("text", "code", "place"),
    [
        (steps("{stepp: start, tool: {kind: noop}}"), Code.UNKNOWN_KEY, "stepp"),
        (steps("{step: start, tool: {kidn: noop}}"), Code.UNKNOWN_KEY, "kidn"),
        (steps("{step: start, tool: {kind: http, ulr: a}}"), Code.UNKNOWN_KEY, "ulr"),
        (steps("{step: start, tool: {kind: python, cod: pass}}"), Code.UNKNOWN_KEY, "cod"),
        (steps(A).replace("name: x", "nme: x"), Code.UNKNOWN_KEY, "nme"),
        (steps(A).replace("workflow", "workfow"), Code.UNKNOWN_KEY, "workfow"),
        (steps(LATER, "{stpe: a, tool: {kind: noop}}"), Code.UNKNOWN_KEY, "stpe"),
        (steps(routed_steps("nxt: a"), A), Code.UNKNOWN_KEY, "nxt"),
        (steps(routed_steps("next: {arcs: [{step: end, when: [1]}, {step: end}]}")), Code.WRONG_TYPE, "[1]"),
        (steps(routed_steps("next: {arcs: {step: a}}"), A), Code.WRONG_TYPE, "{step: a}"),
        (steps(routed_steps("next: {arcs: [{step: [a]}]}"), A), Code.WRONG_TYPE, "[a]"),
        (steps(A, head=UNKNOWN_ENTRY), Code.UNKNOWN_STEP, "strt"),
        (steps("{step: start, tool: {kind: noop, spec: {policy: {rules: 5}}}}"), Code.WRONG_TYPE, "5"),
        (steps("{name: start, tool: {kind: noop}}"), Code.UNKNOWN_KEY, "name"),
        (steps("{step: start, tool: {kind: noop, policy: {rules: []}}}"), Code.UNKNOWN_KEY, "policy"),
        (steps("{step: '', tool: {kind: noop}}"), Code.MISSING_FIELD, "step"),
        (steps("{step: start, loop: {in: null}, tool: {kind: noop}}"), Code.MISSING_FIELD, "in"),
        (steps("\n    step: start\n    tool:\n      kind: http\n    url: http://a"), Code.UNKNOWN_KEY, "url"),
        (steps("{step: start, tool: []}"), Code.WRONG_VALUE, "[]"),
    ],
)
def test_a_mistake_is_reported_once(text: str, code: Code, place: str) -> None:
    source = SourceFile("", text)
    assert [(diagnostic.code, source.slice(diagnostic.span)) for diagnostic in compile_text(text).diagnostics] == [
        (code, place)
    ]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (steps(LATER), 'steps are "end" and "start"'),
        (steps(routed_steps("next: {arcs: [{step: nowhere}]}"), A), 'steps are "a", "end" and "start"'),
        (steps("{name: start, tool: {kind: noop}}"), 'did you mean "step"?'),
        (steps("{step: start, tool: {kind: noop, policy: {rules: []}}}"), "write it below spec: spec: {policy: ...}"),
        (steps(routed_steps("next: {arcs: {step: a}}"), A), "write arcs: [...]"),
        (steps("{step: start, tool: {url: a}}"), "write kind: http, python, postgres, ..."),
        (steps("{step: start, tool: , kind: http, url: a}"), 'indent it below "tool", along with "url"'),
        (steps("{step: start, tool: {kind: noop, params: , a: 1}}"), 'indent it below "params"'),
        (
            steps("{step: start, tool: , kind: http, url: a, method: GET, headers: {}, form: {}, body: {}, json: {}}"),
            'indent it below "tool", along with "url", "method", "headers", "form" and 2 more',
        ),
        (
            steps(
                "{step: start, tool: {kind: noop, timeout: 1, spec: {policy: {rules: [{else: {do: fail}, xyzzy: 1}]}}}}"
            ),
            'its keys are "else", "on_status", "then" and "when"',
        ),
        (steps(routed_steps("next: {spec: {mode: exclusiv}, arcs: [{step: end}]}")), 'did you mean "exclusive"?'),
    ],
)
def test_a_hint_names_the_remedy(text: str, hint: str) -> None:
    assert hint in {diagnostic.hint for diagnostic in compile_text(text).diagnostics}


def test_the_head_of_these_playbooks_is_right() -> None:
    assert compile_text(f"{HEAD}workflow: [{A}]\n").diagnostics == ()


def test_a_duplicate_key_is_not_said_to_belong_elsewhere() -> None:
    text = steps("\n    step: start\n    desc: a\n    tool:\n      kind: noop\n    desc: b")
    [diagnostic] = compile_text(text).diagnostics
    assert (diagnostic.code, "indent" in diagnostic.hint) == (Code.DUPLICATE_KEY, False)
