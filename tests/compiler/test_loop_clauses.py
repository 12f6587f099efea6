"""What a loop must say, and what it means where it does not."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_or_raise, compile_text
from noetl_compiler.codes import Code
from tests.compiler.marked import steps

HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\nname: x\npath: x\nworkflow:\n"


@pytest.mark.parametrize("step", ["type: python", "tool: python", "tool: {kind: python}"])
def test_loops_without_a_required_key_are_errors(step: str) -> None:
    result = compile_text(f"{HEAD}  - {{step: start, {step}, code: '', loop: {{iterator: i}}}}\n", "x.yaml")
    assert Code.MISSING_FIELD in {diagnostic.code for diagnostic in result.diagnostics}
    assert result.graph is None


def test_an_element_without_a_name_is_item() -> None:
    result = compile_text(f"{HEAD}  - {{step: start, type: python, code: '', loop: {{in: [1]}}}}\n", "x.yaml")
    assert result.graph is not None
    loop = result.graph.steps["start"].loop
    assert loop is not None
    assert loop.element == "item"


@pytest.mark.parametrize(
    ("clause", "on_error", "failure"),
    [
        ("", "continue", "fail"),
        ("policy: {failure: {mode: fail}}", "continue", "fail"),
        ("policy: {failure: {mode: best_effort}}", "continue", "best_effort"),
        ("policy: {failure: {mode: fail_fast}}", "fail_fast", "fail"),
        ("on_error: continue, policy: {failure: {mode: fail_fast}}", "continue", "fail"),
        ("on_error: fail_fast, policy: {failure: {mode: best_effort}}", "fail_fast", "best_effort"),
    ],
)
def test_what_a_failed_iteration_means(clause: str, on_error: str, failure: str) -> None:
    loop = f"{{in: [1], iterator: item, spec: {{{clause}}}}}"
    loop_ = compile_or_raise(steps(f"{{step: start, loop: {loop}, tool: {{kind: noop}}}}")).steps["start"].loop
    assert loop_ is not None
    assert (loop_.on_error, loop_.failure) == (on_error, failure)
