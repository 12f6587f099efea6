"""Values that are too large are reported wherever they stand, though only long parts of a text are measured."""

from __future__ import annotations

from noetl_compiler import compile_text
from noetl_compiler.checks.sizes import MAX_VALUE_BYTES
from noetl_compiler.codes import Code
from tests.compiler.marked import HEAD


def places_of_oversized(text: str) -> list[int]:
    return [
        diagnostic.span.line
        for diagnostic in compile_text(HEAD + text).diagnostics
        if diagnostic.code is Code.OVERSIZED_DATA
    ]


def test_a_value_of_wide_characters_is_measured_in_bytes() -> None:
    step = "workflow:\n  - step: s\n    tool: {{kind: noop, result: '{}'}}\n"
    assert len(places_of_oversized(step.format("🙂" * (MAX_VALUE_BYTES // 4 + 1)))) == 1
    assert not places_of_oversized(step.format("🙂" * (MAX_VALUE_BYTES // 4)))


def test_data_that_aliases_make_large_is_measured() -> None:
    value = "x" * (MAX_VALUE_BYTES // 3)
    step = f"workload: {{a: &a {value}}}\nworkflow:\n  - step: s\n    input: {{p: [*a, *a, *a, *a]}}\n"
    assert len(places_of_oversized(step + "    tool: {kind: noop}\n")) == 1
