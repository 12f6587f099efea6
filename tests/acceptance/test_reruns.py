"""``noetl rerun``: the outside is repaired, and the run goes on from the step that failed, as a new run."""

from __future__ import annotations

import json
from pathlib import Path

import asyncpg
import pytest

from noetl_temporal.ids import new_execution_id
from tests.acceptance.site import Site
from tests.audit import audit_execution

pytestmark = pytest.mark.stack

LOAD = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: load, path: PATH}
workflow:
  - step: extract
    tool:
      kind: python
      code: |
        import uuid
        result = {"rows": [1, 2, 3], "drawn": str(uuid.uuid4())}
    next: {arcs: [{step: each}]}
  - step: each
    loop: {in: "{{ extract.rows }}", iterator: row, spec: {mode: parallel}}
    tool: {kind: python, input: {row: "{{ row }}"}, code: "result = 10 * row"}
    next: {arcs: [{step: load}]}
  - step: load
    tool:
      kind: postgres
      auth: pg_local
      command: INSERT INTO TABLE VALUES ($1, $2)
      params: ["{{ extract.drawn }}", "{{ each.results | sum }}"]
"""


class Load:
    """A playbook of one test alone, whose table is missing until the test makes it."""

    def __init__(self, site: Site, folder: Path) -> None:
        self.site = site
        name = new_execution_id()
        self.path, self.table = f"tests/rerun/{name}", f"rerun_{name}"
        self.file = folder / "load.yaml"
        self.file.write_text(LOAD.replace("PATH", self.path).replace("INTO TABLE", f"INTO {self.table}"))

    def fail(self) -> str:
        """The execution id of a run that has failed."""
        report = self.site.run(self.file)
        assert report["status"] == "failed"
        return str(report["execution_id"])


@pytest.fixture
def load(site: Site, tmp_path: Path) -> Load:
    return Load(site, tmp_path)


async def test_a_failed_run_continues_once_its_cause_is_fixed(
    load: Load, log: asyncpg.Connection, playbooks: asyncpg.Connection
) -> None:
    site, failed = load.site, load.fail()
    hint = f"to run it again from there, with the same playbook: noetl rerun {failed} --from load"
    assert hint in site.noetl("status", failed).stdout
    await playbooks.execute(f"CREATE TABLE {load.table} (drawn TEXT, total INT)")
    load.file.unlink()  # the new run has the playbook as it was
    done = site.noetl("rerun", failed[:17], "--from", "load")
    assert (done.returncode, done.stderr) == (0, "")
    submitted_line, of = done.stdout.splitlines()
    assert submitted_line.startswith("submitted: execution ")
    assert of == f"rerun of {failed} from load, reusing extract, each"
    execution = submitted_line.split()[2].rstrip(",")
    wait_result = site.noetl("wait", execution)
    assert wait_result.returncode == 0, wait_result.stdout
    status = site.noetl("status", execution)
    assert f"\nrerun of {failed} from load\n" in status.stdout
    assert "completed (reused)" in status.stdout
    report = json.loads(site.noetl("status", execution, "--json").stdout)
    assert (report["rerun_of"], report["rerun_from"]) == (failed, "load")
    assert {name: (step.get("reused"), step["attempts"]) for name, step in report["steps"].items()} == {
        "extract": (True, 0),
        "each": (True, 0),
        "load": (None, 1),
    }
    query = "SELECT result #>> '{context,drawn}' FROM noetl.event WHERE execution_id = $1 AND event_type = 'step.done'"
    drawn_number = await log.fetchval(f"{query} AND node_name = 'extract'", int(failed))
    assert [tuple(row) for row in await playbooks.fetch(f"SELECT * FROM {load.table}")] == [(drawn_number, 60)]
    assert await audit_execution(site.addresses().postgres, int(execution)) == []
    query = "SELECT node_name FROM noetl.event WHERE execution_id = $1 AND event_type = 'step.reused' ORDER BY event_id"
    assert [row["node_name"] for row in await log.fetch(query, int(execution))] == ["extract", "each"]
    output = site.noetl("events", execution).stdout
    assert f"rerun of {failed}" in output
    assert site.noetl("list", "--path", load.path).stdout.count(load.path) == 2


def test_a_refusal_has_a_reason_and_starts_nothing(load: Load) -> None:
    site, failed = load.site, load.fail()
    before = site.noetl("list", "--path", load.path, "--json").stdout
    unknown = site.noetl("rerun", failed, "--from", "laod")
    assert unknown.returncode == 2
    assert unknown.stderr == f"Error: run {failed}: the playbook has no step 'laod': did you mean \"load\"?\n"
    nowhere = site.noetl("rerun", "tests/rerun/nowhere", "--from", "load")
    assert (nowhere.returncode, "no run has an ID that begins with" in nowhere.stderr) == (2, True)
    missing_result = site.noetl("rerun", "123456789012345678", "--from", "load")
    assert missing_result.returncode == 2
    assert (
        "Temporal has no run 123456789012345678, or has removed it, so its results cannot be reused"
        in missing_result.stderr
    )
    assert site.noetl("rerun", failed).returncode == 2
    assert site.noetl("list", "--path", load.path, "--json").stdout == before


def test_a_rerun_is_reported_as_json(load: Load) -> None:
    site, failed = load.site, load.fail()
    done = site.noetl("rerun", failed, "--from", "each", "--json")
    report = json.loads(done.stdout)
    assert (report["path"], report["rerun_of"], report["rerun_from"]) == (load.path, failed, "each")
    assert report["reused"] == {"extract": "completed"}
    assert site.noetl("wait", report["execution_id"]).returncode == 1
