"""What a loop must say, and what it means where it does not."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code

HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\nname: x\npath: x\nworkflow:\n"


@pytest.mark.parametrize("step", ["type: python", "tool: python", "tool: {kind: python}"])
def test_what_a_loop_needs(step: str) -> None:
    result = compile_text(f"{HEAD}  - {{step: start, {step}, code: '', loop: {{iterator: i}}}}\n", "x.yaml")
    assert Code.MISSING_FIELD in {diagnostic.code for diagnostic in result.diagnostics}
    assert result.graph is None


def test_an_element_without_a_name_is_item() -> None:
    result = compile_text(f"{HEAD}  - {{step: start, type: python, code: '', loop: {{in: [1]}}}}\n", "x.yaml")
    assert result.graph is not None
    loop = result.graph.steps["start"].loop
    assert loop is not None
    assert loop.element == "item"
