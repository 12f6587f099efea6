"""No name has a control character, in no dialect: each is refused at its place, with what to do."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from tests.compiler.marked import marked

ODD = r'"s\0t"'
V1 = "apiVersion: noetl.io/v1\nkind: Playbook\n"
V2 = "apiVersion: noetl.io/v2\nkind: Playbook\n"
CASE = f"{V2}metadata: {{name: x}}\nworkflow:\n  - {{step: start, tool: {{kind: noop}}, case: [%s]}}\n"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (f"{V1}name: {ODD}\nworkflow:\n  - {{step: start, type: python, code: ''}}\n", 1),
        (f"{V1}name: x\nworkflow:\n  - {{step: {ODD}, type: python, code: ''}}\n", 1),
        (f"{V1}name: x\nworkflow: [{{step: start, call: w}}]\nworkbook: [{{name: {ODD}, type: noop}}]\n", 1),
        (f"{V1}name: x\npath: {ODD}\nworkflow:\n  - {{step: start, tool: noop, next: [{{step: end}}]}}\n", 1),
        (f"{V1}name: x\nworkflow:\n  - {{step: {ODD}, tool: noop, next: [{{step: end}}]}}\n", 1),
        (CASE.replace("step: start", f"step: {ODD}") % "{when: '{{ event.name }}', then: {next: end}}", 1),
        (f"{V2}metadata: {{name: {ODD}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n", 1),
        (f"{V2}metadata: {{name: x, path: {ODD}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n", 1),
        (f"{V2}metadata: {{name: x}}\nworkflow: [{{step: {ODD}, tool: {{kind: noop}}}}]\n", 1),
        (f"{V2}metadata: {{name: x}}\nworkflow: [{{step: start, tool: [{{name: {ODD}, kind: noop}}]}}]\n", 1),
        (f"{V2}metadata: {{name: x}}\nworkflow: [{{step: start, tool: [{{{ODD}: {{kind: noop}}}}]}}]\n", 1),
        (f"{V2}metadata: {{name: x}}\nworkflow: [{{step: a b, tool: [{{name: ünï/😀, kind: noop}}]}}]\n", 0),
    ],
)
def test_a_name_with_a_control_character_is_refused_at_its_place(text: str, places: int) -> None:
    assert marked(text, Code.CONTROL_CHARACTER) == [ODD] * places
    diagnostics = [
        diagnostic.hint for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.CONTROL_CHARACTER
    ]
    assert diagnostics == ["remove it, or use a space or a hyphen"] * places


@pytest.mark.parametrize("odd", [r"\0", r"\n", r"\x7f", r"\x9b", r"\u2028", r"\u2029"])
def test_names_with_control_characters_do_not_compile(odd: str) -> None:
    text = f'{V2}metadata: {{name: x}}\nworkflow: [{{step: "a{odd}", tool: {{kind: noop}}}}]\n'
    assert compile_text(text).graph is None
