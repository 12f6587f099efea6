"""A finding in an anchor's text is reported there, with the aliases that repeat the text."""

from __future__ import annotations

from typing import TypeAlias

import pytest

from noetl_compiler import compile_text
from noetl_compiler.source import SourceFile
from tests.compiler.marked import steps

AliasFindings: TypeAlias = list[tuple[str, list[tuple[int, str]]]]

STEP_WITH_ALIAS = "{step: %s, tool: *tool}"


def related_places(text: str) -> AliasFindings:
    """The text at every finding, and at the places it is related to with their lines."""
    source = SourceFile("", text)
    return [
        (source.slice(diagnostic.span), [(other.span.line, source.slice(other.span)) for other in diagnostic.related])
        for diagnostic in compile_text(text).diagnostics
    ]


CASES: list[tuple[list[str], AliasFindings]] = [
    (["{step: start, tool: &tool {kind: nop}}"], [("nop", [])]),
    (["{step: start, tool: &tool {kind: nop}, next: b}", STEP_WITH_ALIAS % "b"], [("nop", [(6, "*tool")])]),
    (
        ["{step: start, tool: {kind: &kind nop}, next: b}", "{step: b, tool: {kind: *kind}}"],
        [("nop", [(6, "*kind")])],
    ),
    (
        ["{step: start, tool: &tool {kind: noop, mesage: x}, next: b}", "{step: b, tool: {<<: *tool, name: c}}"],
        [("mesage", [(6, "*tool")])],
    ),
]


@pytest.mark.parametrize(("lines", "expected"), CASES)
def test_the_aliases_of_a_wrong_anchor_are_reported(
    lines: list[str], expected: list[tuple[str, list[tuple[int, str]]]]
) -> None:
    notes = related_places(steps(*lines))
    assert [note for note in notes if note[0] != "b"] == expected


def test_only_the_first_of_many_aliases_are_reported() -> None:
    many_steps = [STEP_WITH_ALIAS % f"s{index}" for index in range(9)]
    names = ", ".join(f"s{index}" for index in range(9))
    first = f"{{step: start, tool: &tool {{kind: nop}}, next: {{spec: {{mode: inclusive}}, arcs: [{names}]}}}}"
    notes = dict(related_places(steps(first, *many_steps)))
    assert [line for line, _ in notes["nop"]] == [6, 7, 8]


def test_a_star_in_a_text_is_not_an_alias() -> None:
    text = steps("{step: start, tool: {kind: nop, message: 'a & b, *c'}}")
    assert related_places(text) == [("nop", [])]
