"""Loops whose iterations are more than one activity can do run without their frame, and say so."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: tests/x}\n"
LOOP = "- step: start\n  loop: {in: [1], iterator: i, frame: {max_rows: 10}}\n"
REGION = """\
  next: {arcs: [{step: inside}]}
- {step: inside, INNER tool: {kind: noop}, next: {arcs: [{step: done}]}}
- {step: done, spec: {end_loop: start}}
"""
WORKBOOK = "workbook:\n- {name: call, tool: {kind: playbook, path: a/b}}\n"
WAIT_FOR = "{policy: {rules: [{when: \"{{ output.status == 'error' }}\", then: {do: retry, wait_for: fixed}}]}}"


@pytest.mark.parametrize(
    ("loop_fields", "why"),
    [
        ("  tool: {kind: playbook, path: a/b}\n", "its items call playbooks"),
        (f"  tool: {{kind: workbook, name: call}}\n{WORKBOOK}", "its items call playbooks"),
        ("  tool: {kind: wait, signal: paid}\n", "its items may wait"),
        (f"  tool: {{kind: noop, spec: {WAIT_FOR}}}\n", "its items may wait"),
        (
            "  tool: {kind: noop, spec: {idempotent: false}}\n",
            "it has a call that must not be repeated (idempotent: false)",
        ),
        (REGION.replace("INNER ", ""), "the loop has several steps, or is inside of one that has"),
    ],
)
def test_a_frame_without_effect_is_ignored_with_a_warning(loop_fields: str, why: str) -> None:
    result = compile_text(f"{HEAD}workflow:\n{LOOP}{loop_fields}", "x.yaml")
    assert result.graph is not None
    assert result.graph.steps["start"].loop is not None
    assert result.graph.steps["start"].loop.frame is None
    [diagnostic] = [
        diagnostic
        for diagnostic in result.diagnostics
        if diagnostic.code is Code.IGNORED_FIELD and '"frame"' in diagnostic.message
    ]
    assert diagnostic.message == f'"frame" has no effect here: {why}'


def test_a_loop_inside_of_another_is_not_framed() -> None:
    inner = REGION.replace("INNER", "loop: {in: [2], frame: {}},")
    result = compile_text(f"{HEAD}workflow:\n{LOOP.replace(', frame: {max_rows: 10}', '')}{inner}", "x.yaml")
    assert result.graph is not None
    assert result.graph.steps["inside"].loop is not None
    assert result.graph.steps["inside"].loop.frame is None


def test_any_other_loop_keeps_its_frame() -> None:
    result = compile_text(f"{HEAD}workflow:\n{LOOP}  tool: {{kind: noop}}\n", "x.yaml")
    assert result.graph is not None
    assert result.diagnostics == ()
    assert result.graph.steps["start"].loop is not None
    assert result.graph.steps["start"].loop.frame is not None


def test_an_iteration_over_a_cursor_may_call_playbooks() -> None:
    """``frame`` says there how rows are claimed."""
    cursor = '{cursor: {kind: postgres, auth: a, claim: "SELECT 1"}, iterator: row, frame: {max_rows: 2}}'
    text = f"{HEAD}workflow:\n- step: start\n  loop: {cursor}\n  tool: {{kind: playbook, path: a/b}}\n"
    assert compile_text(text, "x.yaml").diagnostics == ()


@pytest.mark.parametrize(
    ("frame", "message", "hint"),
    [
        ("null", '"frame" has no value, so it has no effect', "write frame: {} for frames with the default limits"),
        (
            "{max_rows: 1}",
            "each frame has one item, so the loop is no faster than without frames",
            'raise "max_rows", or remove the frame',
        ),
    ],
)
def test_a_frame_that_makes_no_loop_faster_is_warned_of(frame: str, message: str, hint: str) -> None:
    loop = LOOP.replace("{max_rows: 10}", frame)
    [warning] = compile_text(f"{HEAD}workflow:\n{loop}  tool: {{kind: noop}}\n", "x.yaml").diagnostics
    assert (warning.code, warning.message, warning.hint) == (Code.IGNORED_FIELD, message, hint)
    assert warning.span.line == 6


def test_a_frame_with_default_limits_is_not_warned_of() -> None:
    result = compile_text(f"{HEAD}workflow:\n{LOOP.replace('{max_rows: 10}', '{}')}  tool: {{kind: noop}}\n", "x.yaml")
    assert result.diagnostics == ()
