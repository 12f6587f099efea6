"""Playbooks that call each other: what is found across files, at which place."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_compiler.catalog import read_catalog, with_calls
from noetl_compiler.diagnostics import one_line
from noetl_compiler.phases import understand
from noetl_compiler.source import SourceFile

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: {path}, path: {path}}}\n"
CALL = """workflow:
  - step: start
    tool:
      kind: playbook
      path: {path}
      input: {input}
"""
CHILD = """workload: {days: 3}
workflow:
  - step: start
    tool: {kind: noop, message: "{{ workload.city }} {{ workload.days }} {{ workload.unit | default('C') }}"}
"""
BROKEN = "workflow:\n  - step: start\n    tol: 1\n"


def calling(path: str, given: str = "{city: Oslo}") -> str:
    return CALL.replace("{path}", path).replace("{input}", given)


def findings(folder: Path, books: dict[str, str]) -> list[str]:
    """What is found in ``main``, beside the line and column of its path."""
    for path, body in books.items():
        (folder / f"{path}.yaml").write_text(HEAD.format(path=path) + body)
    (folder / "credentials.yaml").write_text("pg: {type: postgres}\n")
    source = SourceFile("main.yaml", (folder / "main.yaml").read_text())
    return [one_line(found) for found in with_calls(understand(source), read_catalog(folder)).diagnostics]


@pytest.mark.parametrize(
    ("books", "told"),
    [
        ({"main": calling("child"), "child": CHILD}, []),
        ({"main": calling("chil"), "child": CHILD}, ['error[NT601]: the catalog has no playbook "chil"']),
        (
            {"main": calling("child", "{}"), "child": CHILD},
            ['warning[NT604]: "child" needs "city"'],
        ),
        ({"main": calling("child", '"{{ workload }}"'), "child": CHILD}, []),
        ({"main": calling('"{{ workload.which }}"'), "child": CHILD}, []),
        ({"main": calling("child"), "child": BROKEN}, ['error[NT602]: the playbook "child" has errors']),
        ({"main": calling("main")}, ['warning[NT603]: this call leads back to its own playbook: "main" -> "main"']),
        (
            {"main": calling("a"), "a": calling("b"), "b": calling("main")},
            ['warning[NT603]: this call leads back to its own playbook: "main" -> "a" -> "b" -> "main"'],
        ),
        ({"main": calling("a"), "a": calling("b"), "b": calling("a")}, []),
    ],
)
def test_calls_are_checked_across_files(tmp_path: Path, books: dict[str, str], told: list[str]) -> None:
    found = [line for line in findings(tmp_path, books) if "[NT6" in line]
    assert len(found) == len(told)
    for line, expected in zip(found, told, strict=True):
        assert line.startswith(f"main.yaml:8:13: {expected}")
