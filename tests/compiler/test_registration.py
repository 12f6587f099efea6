"""Which playbooks can be registered together, and in which order they become versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl_compiler.diagnostics import one_line
from noetl_compiler.language.tools import KINDS
from noetl_compiler.registration import Candidates, read_candidates

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: {name}, path: {path}{version}}}
workflow:
  - step: start
    tool: {tool}
"""


def write(folder: Path, name: str, path: str, version: str = "", tool: str = "{kind: noop}") -> Path:
    file = folder / name
    message = f", version: '{version}'" if version else ""
    file.write_text(TEXT.format(name=file.stem, path=path, version=message, tool=tool))
    return file


def problems(candidates: Candidates) -> list[str]:
    return [one_line(diagnostic) for result in candidates.problems for diagnostic in result.diagnostics]


def test_all_playbooks_of_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "b.yaml", "etl/b")
    write(tmp_path, "a.yml", "etl/a")
    (tmp_path / "values.yaml").write_text("city: Oslo\n")
    candidates = read_candidates([tmp_path, tmp_path / "a.yml"], KINDS)
    assert [playbook.graph.source.path for playbook in candidates.playbooks] == ["etl/a", "etl/b"]
    assert candidates.playbooks[0].text == (tmp_path / "a.yml").read_text()
    assert not candidates.problems


def test_the_versions_of_a_path_in_their_order(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "etl/a", "1.10")
    write(tmp_path, "b.yaml", "etl/a", "1.9")
    candidates = read_candidates([tmp_path], KINDS)
    assert [playbook.graph.source.version for playbook in candidates.playbooks] == ["1.9", "1.10"]


def test_every_error_of_every_file(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "etl/a", tool="{kind: noop, message: '{{ nowhere }'}")
    write(tmp_path, "b.yaml", "etl/b", tool="{kind: nop}")
    write(tmp_path, "c.yaml", "etl/c")
    candidates = read_candidates([tmp_path, tmp_path / "missing.yaml"], KINDS)
    assert [Path(problem.source.file).name for problem in candidates.problems] == ["a.yaml", "b.yaml", "missing.yaml"]
    assert [playbook.graph.source.path for playbook in candidates.playbooks] == ["etl/c"]


def test_one_path_and_version_in_two_files_is_an_error_in_both(tmp_path: Path) -> None:
    write(tmp_path, "a.yaml", "etl/a")
    write(tmp_path, "b.yaml", "etl/a")
    messages = problems(read_candidates([tmp_path], KINDS))
    assert len(messages) == 2
    assert all("another file has the path" in message for message in messages)


@pytest.mark.parametrize(
    ("script", "is_refused"),
    [("{uri: load.py, source: {type: file}}", True), ("{uri: 'https://example.com/load.py'}", False)],
)
def test_code_in_a_file_cannot_be_registered(tmp_path: Path, script: str, is_refused: bool) -> None:
    (tmp_path / "load.py").write_text("result = 1\n")
    file = write(tmp_path, "a.yaml", "etl/a", tool=f"{{kind: python, script: {script}}}")
    candidates = read_candidates([file], KINDS)
    assert bool(candidates.problems) == is_refused
    assert not is_refused or "the catalog stores only the text of the playbook" in problems(candidates)[-1]
