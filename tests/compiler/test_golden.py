"""Playbooks that compile to a known graph, and playbooks with known findings. A new case is a file or two, no code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from noetl_compiler import Result, compile_text
from noetl_compiler.diagnostics import one_line
from noetl_compiler.graph import decode, encode

CORPUS = Path(__file__).parent / "corpus"
MARK = "# ERROR"

Golden = Callable[[Path, str], None]


def compiled(path: Path) -> Result:
    return compile_text(path.read_text(encoding="utf-8"), path.name)


def cases(folder: str) -> list[Path]:
    return sorted((CORPUS / folder).glob("*.yaml"))


@pytest.mark.parametrize("path", cases("ok"), ids=lambda path: path.stem)
def test_a_playbook_has_its_graph(path: Path, golden: Golden) -> None:
    graph = compiled(path).graph
    assert graph is not None
    assert decode(encode(graph)) == graph
    shown = json.dumps(json.loads(encode(graph)), indent=1, ensure_ascii=False)
    golden(path.with_suffix(".graph.json"), shown + "\n")


@pytest.mark.parametrize("path", cases("err"), ids=lambda path: path.stem)
def test_a_mistake_is_told_at_its_place(path: Path, golden: Golden) -> None:
    diagnostics = compiled(path).diagnostics
    told = [f"{one_line(found)} ({found.hint})" if found.hint else one_line(found) for found in diagnostics]
    golden(path.with_suffix(".out"), "\n".join(told) + "\n")
    lines = path.read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if MARK in line}
    assert {found.span.line for found in diagnostics} == marked
