"""The public face: results, the raising variant, and what importing costs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import noetl_compiler
from noetl_compiler import CompileError, compile_or_raise, compile_text
from noetl_compiler.diagnostics import Severity

GOOD = "metadata: {name: x}\nworkflow:\n  - {step: start, tool: {kind: noop}}\n"


def test_a_missing_end_is_injected_and_every_path_leads_there() -> None:
    graph = compile_or_raise(GOOD)
    assert (graph.entry, graph.final) == ("start", "end")
    assert graph.steps["end"].injected
    assert [arc.to for arc in graph.steps["start"].route.arcs] == ["end"]


def test_an_own_end_in_any_case_of_letters_is_kept() -> None:
    graph = compile_or_raise(GOOD + "  - {step: END, tool: {kind: noop}}\n")
    assert graph.final == "END"
    assert not graph.steps["END"].injected
    assert graph.steps["END"].route.arcs == ()


def test_errors_raise_with_their_places() -> None:
    with pytest.raises(CompileError, match=r'^p\.yaml:3:5: error\[NT102\]: unknown key "a"') as caught:
        compile_or_raise("metadata: {name: x}\nworkflow:\n  - a: 1\n    step: start\n", "p.yaml")
    assert [diagnostic.severity for diagnostic in caught.value.diagnostics] == [Severity.ERROR]


def test_warnings_leave_the_graph() -> None:
    result = compile_text(GOOD.replace("kind: noop", "kind: rhai, code: x"))
    assert result.graph is not None
    assert [diagnostic.severity for diagnostic in result.diagnostics] == [Severity.WARNING]


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
