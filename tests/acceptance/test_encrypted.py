"""Encryption keys on the command line: who lacks one reads which, and the codec server listens to one page."""

from __future__ import annotations

import base64
import json

import httpx
import pytest

from noetl_temporal.client import NoetlClient
from noetl_temporal.payloads.encryption import ENCRYPTION_KEYS_VARIABLE
from tests.acceptance.processes import wait_until
from tests.acceptance.site import ROOT, Site

pytestmark = pytest.mark.stack

HELLO = ROOT / "dev/examples/hello.yaml"
KEYS = f"k1:{base64.b64encode(b'1' * 32).decode()}"
ORIGIN = "http://localhost:8233"


def test_a_run_with_a_key_is_read_with_it_and_the_key_is_named_without_it(
    bare: Site, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv(ENCRYPTION_KEYS_VARIABLE, KEYS)
    up = bare.noetl("dev", "up")
    assert up.returncode == 0, up.stderr
    try:
        report = bare.run(HELLO, "--set", "name=canary-77b1")
        assert "canary-77b1" in json.dumps(report["result"])
        monkeypatch.delenv(ENCRYPTION_KEYS_VARIABLE)
        status = bare.noetl("status")
        assert status.returncode == 2, status.stdout
        assert "the encryption key 'k1' is missing here: add it to NOETL_ENCRYPTION_KEYS" in status.stderr
        assert "canary-77b1" not in status.stdout + status.stderr
        submission = bare.noetl("submit", str(HELLO))
        assert submission.returncode == 0, submission.stderr
    finally:
        bare.noetl("dev", "down")


WAITING = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: waiting, path: tests/encrypted/waiting}
workflow:
  - step: start
    tool: {kind: wait, signal: paid}
"""


def test_a_signal_names_the_key_that_the_workers_lack_by_now(
    bare: Site, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    monkeypatch.setenv("NOETL_HOME", str(tmp_path_factory.mktemp("home")))
    monkeypatch.setenv(ENCRYPTION_KEYS_VARIABLE, KEYS)
    assert bare.noetl("dev", "up").returncode == 0
    try:
        run = json.loads(bare.noetl("submit", str(bare.write(WAITING)), "--json").stdout)["execution_id"]
        assert wait_until(lambda: "paid" in bare.noetl("status", run).stdout)
        assert bare.noetl("dev", "down").returncode == 0
        monkeypatch.delenv(ENCRYPTION_KEYS_VARIABLE)
        assert bare.noetl("dev", "up").returncode == 0
        refusal = bare.noetl("signal", run, "paid")
        assert refusal.returncode in (1, 2, 3)  # 3 where no worker answered in time
        assert "the encryption key 'k1' is missing here" in refusal.stderr
        assert "NOETL_ENCRYPTION_KEYS" in refusal.stderr
        assert "no worker answers" not in refusal.stderr
    finally:
        bare.noetl("dev", "down")


@pytest.mark.parametrize("command", ["run", "submit"])
def test_a_run_that_the_workers_could_not_read_is_not_started(
    site: Site, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv(ENCRYPTION_KEYS_VARIABLE, KEYS)
    done = site.noetl(command, str(HELLO))
    assert done.returncode == 2, done.stdout
    assert (
        "the workers of noetl-python cannot read payloads from this client: start them with the NOETL_ENC"
        in done.stderr
    )


async def test_a_stack_without_the_key_reports_that_of_the_run(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python client does not ask the workers first."""
    monkeypatch.setenv(ENCRYPTION_KEYS_VARIABLE, KEYS)
    stack = site.addresses()
    client = await NoetlClient.connect(stack.temporal, dsn=stack.postgres)
    run = str((await client.submit(HELLO)).execution_id)
    assert wait_until(lambda: "the encryption key 'k1' is missing" in site.noetl("status", run).stdout)
    assert "give all workers the same encryption keys" in site.noetl("status", run).stdout
    assert site.noetl("terminate", run, "--reason", "no key").returncode == 0


def test_the_codec_server_answers_pages_of_its_origin(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENCRYPTION_KEYS_VARIABLE, KEYS)
    with site.start("codec-server", "--port", "0", "--origin", f"{ORIGIN}/namespaces") as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith(f"codec server for {ORIGIN}: http://127.0.0.1:"), line
        url = line.split()[4].rstrip(";")
        plain = {"metadata": {"encoding": base64.b64encode(b"json/plain").decode()}, "data": "ImhlbGxvIg=="}
        with httpx.Client(base_url=url, headers={"Origin": ORIGIN}) as page:
            options = page.options("/decode", headers={"Access-Control-Request-Method": "POST"})
            assert options.status_code == 204
            assert options.headers["Access-Control-Allow-Origin"] == ORIGIN
            assert "x-namespace" in options.headers["Access-Control-Allow-Headers"]
            encoded_page = page.post("/encode", json={"payloads": [plain]}).json()
            assert base64.b64decode(encoded_page["payloads"][0]["metadata"]["encoding"]) == b"binary/encrypted"
            assert page.post("/decode", json=encoded_page).json() == {"payloads": [plain]}
            assert page.post("/decode", content=b"{").status_code == 400
        server.terminate()
        assert server.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--host", "0.0.0.0"), "--allow-remote is needed"),
        (("--host", "0.0.0.0", "--allow-remote"), "set NOETL_CODEC_TOKEN"),
        (("--host", "example.com"), "--host must be an IP address"),
        (("--origin", "temporal"), "--origin must be a URL"),
    ],
)
def test_the_codec_server_refuses_to_listen_anywhere(site: Site, arguments: tuple[str, ...], problem: str) -> None:
    refusal = site.noetl("codec-server", *arguments)
    assert refusal.returncode == 2
    assert problem in refusal.stderr


def test_wrong_keys_are_reported_without_a_part_of_them(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENCRYPTION_KEYS_VARIABLE, "k1:hush-hush")
    refusal = site.noetl("submit", str(HELLO))
    assert refusal.returncode == 2
    assert "the key 'k1' in NOETL_ENCRYPTION_KEYS is not base64 of 32 bytes" in refusal.stderr
    assert "hush" not in refusal.stderr + refusal.stdout
