"""Credentials that no worker has are found before a run is submitted to workers elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.site import Site

pytestmark = pytest.mark.stack

PLAYBOOK = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: check, path: tests/credential_check}
workload: {names: [a, b]}
workflow:
  - step: read
    loop: {in: "{{ workload.names }}", iterator: name, spec: {mode: parallel, FRAMED}}
    tool:
      kind: postgres
      auth: CREDENTIAL
      command: SELECT 1
"""


def playbook_of(folder: Path, credential: str, loop_spec: str = "max_in_flight: 2") -> str:
    file = folder / "check.yaml"
    file.write_text(PLAYBOOK.replace("CREDENTIAL", credential).replace("FRAMED", loop_spec))
    return str(file)


@pytest.mark.parametrize("loop_spec", ["max_in_flight: 2", "frame: {max_rows: 2}"])
@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_credential_that_the_workers_do_not_have(site: Site, tmp_path: Path, command: str, loop_spec: str) -> None:
    file = playbook_of(tmp_path, "warehouse", loop_spec)
    done = site.noetl(command, file)
    assert done.returncode == 2, done.stdout
    first, *_, last = done.stderr.splitlines()
    assert first.startswith(f"{file}:9:7: error: no credential 'warehouse'")
    assert last == "nothing was started"


def test_a_credential_that_they_have(site: Site, tmp_path: Path) -> None:
    assert site.noetl("run", playbook_of(tmp_path, "pg_local")).returncode == 0


def test_a_credential_named_by_a_template_is_not_checked(site: Site, tmp_path: Path) -> None:
    done = site.noetl("run", playbook_of(tmp_path, '"{{ workload.names[0] }}"'))
    assert done.returncode == 1, done.stderr
