"""Shell tasks as a person runs them, and upstream's own playbooks of them, unchanged."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.site import ROOT, Site
from tests.acceptance.test_canary import histories_of, tables_of

CORPUS = ROOT.parent / "shared/corpus"
OPS, JANUARY = "ops@HEAD/automation", "noetl@2026-01-31/automation"

pytestmark = pytest.mark.stack


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
@pytest.mark.parametrize(
    ("file", "settings", "steps"),
    [
        (f"{OPS}/examples/conditional_flow.yaml", {}, "start prod_setup check_deploy deploy_app verify_deployment end"),
        (
            f"{JANUARY}/examples/conditional_flow.yaml",
            {"environment": "staging", "deploy": "no"},
            "start staging_setup check_deploy skip_deploy end",
        ),
        (f"{OPS}/examples/deploy_child.yaml", {"image_tag": "v1", "target_env": "dev"}, "start deploy end"),
        (f"{OPS}/test/pagination-server.yaml", {}, "start show_help end"),
        (f"{JANUARY}/infrastructure/kind.yaml", {}, "start show_help end"),
        ("noetl@2026-02-28/automation/development/docker.yaml", {}, "start show_help end"),
        (f"{OPS}/development/docker.yaml", {}, "run end"),
    ],
)
def test_upstreams_playbooks_complete(site: Site, file: str, settings: dict[str, str], steps: str) -> None:
    report = site.run(
        CORPUS / file, *(word for name, value in settings.items() for word in ("--set", f"{name}={value}"))
    )
    assert report["status"] == "completed", report["failures"]
    assert list(report["steps"]) == steps.split()


FAILS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: shell_fails, path: tests/shell_fails}
workflow:
  - step: start
    tool:
      kind: shell
      cmds:
        - echo here
        - echo "no such host" >&2; exit 6
"""


def test_a_command_that_fails_is_reported_at_its_place(site: Site) -> None:
    done = site.noetl("run", str(site.write(FAILS, "fails.yaml")))
    assert done.returncode == 1
    assert (
        "fails.yaml:7:7: start/start_task: command 2 of 2 ended with status 6: no such host"
        in done.stdout + done.stderr
    )


SECRET = "canary-shell-51fe2b"
LEAKS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: shell_leaks, path: tests/shell_leaks}
workflow:
  - step: start
    tool:
      kind: shell
      auth: planted
      cmds:
        - echo "$TOKEN"; env | grep TOKEN; echo "$TOKEN" | base64; set -x; echo "$TOKEN" >&2
        - echo "$TOKEN" | tr a-z A-Z >&2; exit 3
      spec:
        policy:
          rules:
            - {when: "{{ output.data.exit_code == 3 }}", then: {do: retry, attempts: 2}}
            - {else: {then: {do: fail}}}
"""


async def test_the_credential_of_a_task_is_kept_nowhere(bare: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_CREDENTIAL_PLANTED", json.dumps({"type": "bearer", "token": SECRET}))
    assert bare.noetl("dev", "up").returncode == 0
    done = bare.noetl("run", str(bare.write(LEAKS)), "--json")
    report = json.loads(done.stdout)
    assert report["status"] == "failed"
    assert report["result"]["stdout"].startswith("***\nTOKEN=***\n***\n")
    results = [bare.noetl(command, str(report["execution_id"])) for command in ("status", "events")]
    addresses = bare.addresses()
    texts = {
        "printed": "".join(
            [done.stdout, done.stderr, *(completed.stdout + completed.stderr for completed in results)]
        ).encode(),
        "log": await tables_of(addresses.postgres),
        "history": await histories_of(addresses.temporal),
    }
    assert bare.noetl("dev", "down").returncode == 0
    files = [path for root in (bare.folder, bare.home.root) for path in root.rglob("*") if path.is_file()]
    logs = b"".join(path.read_bytes() for path in files if path.suffix == ".log")
    assert b"  | TOKEN=***" in logs
    texts |= {str(path): path.read_bytes() for path in files}
    assert [location for location, text in texts.items() if _is_in(text)] == []


def _is_in(text: bytes) -> bool:
    return SECRET.encode() in text or SECRET.upper().encode() in text
