"""Playbooks that use an object store, on loopback: values of a run, and code of upstream's playbooks, unchanged."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.site import ROOT, Site
from tests.object_store import KEYS, TOKEN, ObjectStore

CORPUS = ROOT.parent / "shared/corpus"
SCRIPT = ROOT / "dev/corpus_runs/scripts/hello_world.py"
BUCKET = "noetl-demo-19700101"
FILES = [
    "e2e@HEAD/fixtures/playbooks/script_execution/python_gcs_example.yaml",
    *(
        f"noetl@{era}/tests/fixtures/playbooks/script_execution/python_gcs_example.yaml"
        for era in ("2025-12-10", "2025-12-12", "2025-12-17", "2026-01-31", "2026-02-28")
    ),
]

ARTIFACTS = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: artifacts, path: tests/artifacts}
workflow:
  - step: start
    tool:
      kind: artifact
      auth: google_oauth
      action: put
      uri: "gs://scripts/runs/{{ execution_id }}.json.gz"
      data: {rows: [1, 2, 3]}
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: artifact, auth: google_oauth, action: get, uri: "{{ start.uri }}"}
"""

pytestmark = pytest.mark.stack
of_upstream = pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")


@pytest.fixture
def store(object_store: ObjectStore) -> ObjectStore:
    object_store.create(BUCKET)
    object_store.store("scripts/hello_world.py", SCRIPT.read_bytes(), BUCKET)
    object_store.requests.clear()
    return object_store


@pytest.fixture
def allow_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW", "127.0.0.0/8")


def credentials(site: Site, store: ObjectStore, **fields: str) -> str:
    credentials_by_name = {"google_oauth": {"endpoint": store.url, **fields}}
    return str(site.write(json.dumps(credentials_by_name), "credentials.yaml"))


@of_upstream
@pytest.mark.usefixtures("allow_loopback")
@pytest.mark.parametrize("file", FILES, ids=[file.partition("/")[0] for file in FILES])
def test_code_in_a_store_is_fetched_with_the_credential_of_the_command(
    site: Site, store: ObjectStore, file: str
) -> None:
    report = site.run(CORPUS / file, "--credentials", credentials(site, store, type="gcs_hmac", **KEYS))
    assert report["status"] == "completed", report
    assert store.requests == [f"GET /{BUCKET}/scripts/hello_world.py"]


@of_upstream
@pytest.mark.usefixtures("allow_loopback")
def test_code_that_the_store_refuses_starts_nothing(site: Site, store: ObjectStore) -> None:
    arguments = credentials(site, store, type="gcs", token=f"not-{TOKEN}")
    done = site.noetl("run", str(CORPUS / FILES[0]), "--credentials", arguments)
    assert done.returncode == 2
    errors = done.stdout + done.stderr
    assert f"cannot fetch gs://{BUCKET}/scripts/hello_world.py: it returned 403 Forbidden (AccessDenied)" in errors
    assert "nothing was started" in errors
    assert TOKEN not in errors


@of_upstream
def test_a_credential_that_the_command_lacks_is_named(site: Site) -> None:
    done = site.noetl("run", str(CORPUS / FILES[0]))
    assert done.returncode == 2
    assert "no credential 'google_oauth'" in done.stderr
    assert (
        "scripts are fetched by the process that submits the playbook, with the credentials of that process"
        in done.stderr
    )


def test_a_run_puts_a_value_and_gets_it_back(site: Site, store: ObjectStore) -> None:
    report = site.run(site.write(ARTIFACTS), "--credentials", credentials(site, store, type="gcs_hmac", **KEYS))
    assert report["status"] == "completed", report
    assert report["result"]["data"] == {"rows": [1, 2, 3]}
    assert report["result"]["uri"] == f"gs://scripts/runs/{report['execution_id']}.json.gz"
    events = site.noetl("events", report["execution_id"], "--json").stdout
    assert report["result"]["sha256"] in events
    assert KEYS["secret_access_key"] not in events
    assert "Signature=" not in events
