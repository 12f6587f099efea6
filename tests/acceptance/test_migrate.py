"""``noetl migrate`` as a person calls it."""

from __future__ import annotations

import subprocess
import sys

from tests.acceptance.site import ROOT, Site

OLD = (ROOT / "dev/examples/pagination_legacy.yaml").read_text(encoding="utf-8")
WRONG = "metadata: {name: x}\nworkflow:\n  - step: start\n    tool: noop\n    next: nowhere\n"


def test_it_prints_rewrites_and_writes_elsewhere(bare: Site) -> None:
    old = bare.folder / "old.yaml"
    old.write_text(OLD)
    printed = bare.noetl("migrate", "old.yaml")
    assert printed.returncode == 0
    assert "apiVersion: noetl.io/v2" in printed.stdout
    assert "old.yaml:2:1: note: names and defaults stay those of the legacy dialect: it is said" in printed.stderr
    assert old.read_text() == OLD
    assert bare.noetl("migrate", "old.yaml", "-o", "new.yaml").stdout == ""
    assert bare.noetl("migrate", "old.yaml", "--write").returncode == 0
    assert (bare.folder / "new.yaml").read_text() == old.read_text() == printed.stdout
    assert bare.noetl("migrate", "old.yaml").stdout == printed.stdout


def test_stdin_is_a_playbook_too(bare: Site) -> None:
    command = [sys.executable, "-m", "noetl_temporal.cli", "migrate", "-"]
    done = subprocess.run(command, input=OLD, capture_output=True, text=True, cwd=bare.folder, check=True)
    assert done.stdout == bare.noetl("migrate", str(ROOT / "dev/examples/pagination_legacy.yaml")).stdout


def test_a_playbook_with_errors_stays_as_it_is(bare: Site) -> None:
    wrong = bare.folder / "wrong.yaml"
    wrong.write_text(WRONG)
    done = bare.noetl("migrate", "wrong.yaml", "--write")
    assert done.returncode == 1
    assert "wrong.yaml:5:11: error[NT203]" in done.stderr
    assert "nothing was written" in done.stderr
    assert wrong.read_text() == WRONG


def test_a_wrong_call_is_told(bare: Site) -> None:
    (bare.folder / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    assert "error[NT001]" in bare.noetl("migrate", "latin.yaml").stderr
    assert bare.noetl("migrate", "nowhere.yaml").returncode == 2
    assert bare.noetl("migrate", "latin.yaml", "--write", "-o", "new.yaml").returncode == 2
