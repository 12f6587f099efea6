"""The public face: results, the raising variant, and what importing costs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import noetl_compiler
from noetl_compiler import CompileError, compile_or_raise, compile_text
from noetl_compiler.diagnostics import Severity

HEADER = "apiVersion: noetl.io/v2\nkind: Playbook\n"
GOOD = "metadata: {name: x}\nworkflow:\n  - {step: start, tool: {kind: noop}}\n"


def test_a_missing_end_is_injected_and_every_path_leads_there() -> None:
    graph = compile_or_raise(GOOD)
    assert (graph.entry, graph.final) == ("start", "end")
    assert graph.steps["end"].injected
    assert [arc.target for arc in graph.steps["start"].route.arcs] == ["end"]


def test_an_end_step_in_any_case_of_letters_is_kept() -> None:
    graph = compile_or_raise(GOOD + "  - {step: END, tool: {kind: noop}}\n")
    assert graph.final == "END"
    assert not graph.steps["END"].injected
    assert graph.steps["END"].route.arcs == ()


def test_errors_raise_with_their_places() -> None:
    with pytest.raises(CompileError, match=r'^p\.yaml:5:5: error\[NT102\]: unknown key "a"') as caught:
        compile_or_raise(f"{HEADER}metadata: {{name: x}}\nworkflow:\n  - a: 1\n    step: start\n", "p.yaml")
    assert [diagnostic.severity for diagnostic in caught.value.diagnostics] == [Severity.ERROR]


def test_warnings_leave_the_graph() -> None:
    result = compile_text(HEADER + GOOD.replace("kind: noop", "kind: rhai, code: x"))
    assert result.graph is not None
    assert [diagnostic.severity for diagnostic in result.diagnostics] == [Severity.WARNING]


@pytest.mark.parametrize("name", ["apiVersion", "kind"])
def test_a_header_that_is_missing_is_a_warning_with_the_line_to_add(name: str) -> None:
    lines = HEADER.splitlines(keepends=True)
    [line] = [line for line in lines if line.startswith(name)]
    result = compile_text("".join(text for text in lines if text != line) + GOOD)
    assert result.graph is not None
    assert [(str(one.code.value), one.message, one.hint) for one in result.diagnostics] == [
        ("NT104", f'the playbook has no "{name}"', f"add the line {line.strip()}")
    ]
    assert not compile_text(HEADER + GOOD).diagnostics


@pytest.mark.parametrize("header", [HEADER, "apiVersion: unknown\nkind: Playbook\n", ""])
def test_a_workflow_without_steps_is_an_error_beside_any_warning(header: str) -> None:
    result = compile_text(f"{header}metadata: {{name: x}}\nworkflow: []\n")
    assert result.graph is None
    assert '"workflow" has no steps' in [diagnostic.message for diagnostic in result.diagnostics]


@pytest.mark.parametrize("key", ["x-common: &common {kind: noop}", "steps: []"])
def test_an_unknown_key_of_the_root_has_a_remedy(key: str) -> None:
    [diagnostic] = compile_text(f"{HEADER}{key}\n{GOOD}").diagnostics
    assert diagnostic.message.startswith("unknown key")
    assert diagnostic.hint.startswith('move it below "metadata", which takes any key')


def test_an_anchor_below_metadata_may_be_used_in_steps() -> None:
    metadata = "metadata: {name: x, x-common: &common {kind: noop, result: 3}}\n"
    assert not compile_text(f"{HEADER}{metadata}workflow:\n  - {{step: start, tool: *common}}\n").diagnostics


def test_importing_the_graph_loads_no_yaml_and_compiling_no_temporal() -> None:
    script = (
        "import sys, noetl_compiler.graph; assert not {'yaml', 'jinja2'} & set(sys.modules)\n"
        "from noetl_compiler import compile_text; compile_text('workflow: []')\n"
        "assert not {'temporalio', 'pydantic', 'asyncio'} & set(sys.modules), 'loaded'"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", script], env=environment, check=True)


def test_the_public_names_exist() -> None:
    assert all(hasattr(noetl_compiler, name) for name in noetl_compiler.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        getattr(noetl_compiler, "nope")  # noqa: B009 - type checkers know that it is not there
