"""What a stack writes is for its account alone, whatever the umask, in a folder that others may enter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

PLAYBOOK = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: private, path: tests/private}
workflow:
  - step: start
    tool:
      kind: duckdb
      query: CREATE TABLE kept AS SELECT 42 AS answer
"""


@pytest.fixture
def folder(bare: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = bare.folder / "stack"
    folder.mkdir(mode=0o755)
    monkeypatch.setenv("NOETL_HOME", str(folder))
    before = os.umask(0)
    yield folder
    os.umask(before)


def readable(folder: Path) -> list[str]:
    """What others may read or enter."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.lstat().st_mode & 0o077)


def test_files_of_a_run_with_a_stack_of_its_own(bare: Site, folder: Path) -> None:
    done = bare.noetl("run", str(bare.write(PLAYBOOK)))
    assert done.returncode == 0, done.stderr
    assert {"temporal.db", "postgres", "duckdb"} <= {path.name for path in folder.iterdir()}
    assert readable(folder) == []


def test_files_of_a_stack_that_stays(bare: Site, folder: Path) -> None:
    assert bare.noetl("dev", "up").returncode == 0
    try:
        done = bare.noetl("run", str(bare.write(PLAYBOOK)))
        assert done.returncode == 0, done.stderr
        assert {"stack.log", "worker.log", "stack.json", "duckdb"} <= {path.name for path in folder.iterdir()}
        assert readable(folder) == []
    finally:
        bare.noetl("dev", "down")
