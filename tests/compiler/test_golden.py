"""Playbooks that compile to a known graph, and playbooks with known findings. A new case is a file or two, no code."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from noetl_compiler import compile_text
from noetl_compiler.codes import Code
from noetl_compiler.diagnostics import one_line
from noetl_compiler.graph import decode, encode
from tests.compiler.marked import cases, findings_in, playbooks_in

MARK = "# ERROR"

Golden = Callable[[Path, str], None]


@pytest.mark.parametrize("path", cases("ok"), ids=lambda path: path.stem)
def test_a_playbook_has_its_graph(path: Path, golden: Golden) -> None:
    graph = compile_text(path.read_text(encoding="utf-8"), path.name).graph
    assert graph is not None
    assert decode(encode(graph)) == graph
    text = json.dumps(json.loads(encode(graph)), indent=1, ensure_ascii=False)
    golden(path.with_suffix(".graph.json"), text + "\n")


@pytest.mark.parametrize("path", cases("err"), ids=lambda path: path.stem)
def test_a_mistake_is_reported_at_its_place(path: Path, golden: Golden) -> None:
    """A folder is a catalog: each of its playbooks is compiled beside the others."""
    diagnostics = findings_in(path)
    message = [
        f"{one_line(diagnostic)} ({diagnostic.hint})" if diagnostic.hint else one_line(diagnostic)
        for diagnostic in diagnostics
    ]
    golden(path.with_suffix(".out"), "\n".join(message) + "\n")
    assert {(diagnostic.file, diagnostic.span.line) for diagnostic in diagnostics} == set(marks_in(path))


def marks_in(path: Path) -> Iterator[tuple[str, int]]:
    for file in playbooks_in(path):
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
        yield from ((file.name, number) for number, line in enumerate(lines, 1) if MARK in line)


def test_every_code_has_a_case() -> None:
    assert {diagnostic.code for path in cases("err") for diagnostic in findings_in(path)} == set(Code)
