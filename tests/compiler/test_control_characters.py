"""No name has a control character, in no dialect: each is refused at its place, with what to do."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from tests.compiler.marked import marked_parts

ODD_NAME = r'"s\0t"'
V1 = "apiVersion: noetl.io/v1\nkind: Playbook\n"
V2 = "apiVersion: noetl.io/v2\nkind: Playbook\n"
CASE = f"{V2}metadata: {{name: x}}\nworkflow:\n  - {{step: start, tool: {{kind: noop}}, case: [%s]}}\n"


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (f"{V1}name: {ODD_NAME}\nworkflow:\n  - {{step: start, type: python, code: ''}}\n", 1),
        (f"{V1}name: x\nworkflow:\n  - {{step: {ODD_NAME}, type: python, code: ''}}\n", 1),
        (f"{V1}name: x\nworkflow: [{{step: start, call: w}}]\nworkbook: [{{name: {ODD_NAME}, type: noop}}]\n", 1),
        (f"{V1}name: x\npath: {ODD_NAME}\nworkflow:\n  - {{step: start, tool: noop, next: [{{step: end}}]}}\n", 1),
        (f"{V1}name: x\nworkflow:\n  - {{step: {ODD_NAME}, tool: noop, next: [{{step: end}}]}}\n", 1),
        (CASE.replace("step: start", f"step: {ODD_NAME}") % "{when: '{{ event.name }}', then: {next: end}}", 1),
        (f"{V2}metadata: {{name: {ODD_NAME}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n", 1),
        (f"{V2}metadata: {{name: x, path: {ODD_NAME}}}\nworkflow: [{{step: start, tool: {{kind: noop}}}}]\n", 1),
        (f"{V2}metadata: {{name: x}}\nworkflow: [{{step: {ODD_NAME}, tool: {{kind: noop}}}}]\n", 1),
        (f"{V2}metadata: {{name: x}}\nworkflow: [{{step: start, tool: [{{name: {ODD_NAME}, kind: noop}}]}}]\n", 1),
        (f"{V2}metadata: {{name: x}}\nworkflow: [{{step: start, tool: [{{{ODD_NAME}: {{kind: noop}}}}]}}]\n", 1),
        (f"{V2}metadata: {{name: x}}\nworkflow: [{{step: a b, tool: [{{name: ünï/😀, kind: noop}}]}}]\n", 0),
    ],
)
def test_a_name_with_a_control_character_is_refused_at_its_place(text: str, places: int) -> None:
    assert marked_parts(text, Code.CONTROL_CHARACTER) == [ODD_NAME] * places
    diagnostics = [
        diagnostic.hint for diagnostic in compile_text(text).diagnostics if diagnostic.code is Code.CONTROL_CHARACTER
    ]
    assert diagnostics == ["remove it, or use a space or a hyphen"] * places


@pytest.mark.parametrize("odd_name", [r"\0", r"\n", r"\x7f", r"\x9b", r"\u2028", r"\u2029"])
def test_names_with_control_characters_do_not_compile(odd_name: str) -> None:
    text = f'{V2}metadata: {{name: x}}\nworkflow: [{{step: "a{odd_name}", tool: {{kind: noop}}}}]\n'
    assert compile_text(text).graph is None
