"""Secrets are planted, sent to a server that sends them back in every way, and raised; then everything that the stack
keeps or prints is searched for them: history, each table, each log, each file; and while it works, the process list.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import quote

import asyncpg
import pytest

from noetl_temporal.config import connect_temporal
from tests.acceptance.process_search import ProcessSearch
from tests.acceptance.processes import wait_until
from tests.acceptance.site import Site

pytestmark = pytest.mark.stack
HAS_PROC = pytest.mark.skipif(not Path("/proc/self").exists(), reason="the system does not show environments")

PLANTS = {
    "basic": "canary-Basic/+7f3a91",
    "bearer": "canary.Bearer.52c0de",
    "header": "canary_header_88ab01",
    "neutral": "canary words of 19dd",
    "environment": "canary~env~6e6f65746c",
    "postgres": "canary-pg-0a1b2c3d",
    "dsn": "canary/dsn@99e1",
    "query": "canary+query/71c2d4",
    "vault": "canary-vault-5d5d5d",
    "readable": "canary-readable-4be1c7",
    "client": "canary-client-a90d33",
    "fetched": "canary-fetched-6c07fe",
    "only": "canary-only-f15b20",
}

ENVIRONMENT = {
    "access_token": PLANTS["environment"],
    "url": f"https://vault.invalid/v1?version=2&token={quote(PLANTS['query'], safe='')}#there",
    "data": {"data": {"words": PLANTS["vault"]}, "metadata": {"version": 2}},
}
"""With a secret in a query string, and one in a map as Vault answers."""

READABLE = {
    "readable": {"type": "secret", "words": PLANTS["readable"], "client": PLANTS["client"]},
    "canary_only": {"type": "secret", "value": PLANTS["only"]},
}
"""Of the keychain. Frames run in the worker of the stack, which knows no file of the command."""

CREDENTIALS = f"""
basic: {{type: basic, username: someone, password: "{PLANTS["basic"]}", description: "{PLANTS["neutral"]}"}}
bearer: {{type: bearer, token: "{PLANTS["bearer"]}", tags: [{{deep: ["{PLANTS["neutral"]}"]}}]}}
header:
  type: api_key
  data: {{header_name: X-Thing, value: "{PLANTS["header"]}"}}
wrong_login: {{type: postgres, db_host: 127.0.0.1, db_port: 1, db_user: u, db_password: "{PLANTS["postgres"]}"}}
no_dsn: {{type: postgres, dsn: "postgresql://u:{PLANTS["dsn"]}@127.0.0.1:1/d"}}
queried: {{type: postgres, dsn: "postgresql://u@127.0.0.1:1/d?password={quote(PLANTS["query"], safe="")}&bad=1"}}
"""

STORING_PLAYBOOK = """\
apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: canary_stored, path: tests/canary_stored}
workload: {url: "", ways: []}
workflow:
  - step: start
    tool: postgres
    auth: pg_local
    command: CREATE TABLE IF NOT EXISTS canary (way text, answer text)
    next: ask
  - step: ask
    tool: http
    loop: {collection: "{{ workload.ways }}", element: way, mode: sequential}
    url: "{{ workload.url }}/{{ way.path }}"
    auth: "{{ way.auth }}"
    sink:
      tool: postgres
      auth: pg_local
      table: canary
      data: {way: "{{ way.path }}", answer: "{{ result | tojson }}"}
    next: raise
  - step: raise
    tool: python
    args: {found: "{{ ask }}"}
    code: |
      def main(found):
          print(found)
          raise ValueError(found)
"""

FAILING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: canary_failing, path: tests/canary_failing}
workload: {url: "", ways: []}
workflow:
  - step: ask
    loop:
      in: "{{ workload.ways }}"
      iterator: way
      spec: {mode: sequential, policy: {failure: {mode: best_effort}}}
    tool: {kind: http, url: "{{ workload.url }}/{{ iter.way.path }}", auth: "{{ iter.way.auth }}"}
    next: {arcs: [{step: log_in}]}
  - step: log_in
    loop:
      in:
        - wrong_login
        - no_dsn
        - queried
        - {credential: wrong_login, db_port: 2}
        - {pg: {key: wrong_login, dsn: "postgresql://u@127.0.0.1:1"}}
      iterator: login
      spec: {mode: sequential, policy: {failure: {mode: best_effort}}}
    tool: {kind: postgres, query: SELECT 1, auth: "{{ iter.login }}"}
"""

KEYCHAIN = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: canary_keychain, path: tests/canary_keychain}
workload: {url: "", ways: []}
keychain:
  - {name: held, kind: credential, credential: readable}
  - name: token
    kind: oauth2
    endpoint: "{{ workload.url }}/token"
    data: {client_secret: "{{ keychain.held.client }}"}
workflow:
  - step: start
    tool: {kind: secrets, provider: env, secret_name: canary_only}
    set: {ctx.kept: "Bearer {{ keychain.held.words }}", ctx.only: "{{ output.data.secret_value }}"}
    next: {arcs: [{step: ask}]}
  - step: ask
    loop:
      in: "{{ workload.ways }}"
      iterator: way
      spec: {mode: parallel, policy: {failure: {mode: best_effort}}}
    tool:
      kind: http
      url: "{{ workload.url }}/{{ iter.way.path }}?words={{ keychain.held.words }}"
      params: {only: "{{ ctx.only }}"}
      headers: {X-Client: "{{ keychain.held.client }}", X-Kept: "{{ ctx.kept }}"}
      auth: {type: bearer, token: "{{ keychain.token.access_token }}"}
    next: {arcs: [{step: ask_in_frames}]}
  - step: ask_in_frames
    loop: {in: [framed, error], iterator: way, spec: {frame: {max_rows: 10}, policy: {failure: {mode: best_effort}}}}
    tool:
      kind: http
      url: "{{ workload.url }}/{{ way }}?words={{ keychain.held.words }}&only={{ ctx.only }}"
      headers:
        Authorization: "Bearer {{ token.access_token }}"
        X-Client: "{{ keychain.held.client }}"
        X-Kept: "{{ ctx.kept }}"
    next: {arcs: [{step: count}]}
  - step: count
    tool:
      kind: postgres
      auth: pg_local
      query: select $1::int
      params: ["{{ keychain.held.words }}"]
    next: {arcs: [{step: raise, when: "{{ output.status == 'error' }}"}]}
  - step: raise
    tool:
      kind: python
      input:
        words: "{{ keychain.held.words }}"
        all: "{{ keychain.held }}"
        token: "{{ token.access_token }}"
        answers: "{{ ask }}"
      env: {ONLY: "{{ ctx.only }}"}
      code: |
        import os
        print(words, all, token, os.environ["ONLY"])
        raise ValueError(f"{words} {all} {token} {os.environ['ONLY']} {answers}")
"""

HELD = """\
apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: canary_held, path: tests/canary_held}
workload: {url: "", seen: ""}
workflow:
  - step: start
    tool: {kind: duckdb, query: SELECT 1 AS one}
    next: {arcs: [{step: ask}]}
  - step: ask
    tool: {kind: http, url: "{{ workload.url }}/json", auth: environment}
    next: {arcs: [{step: hold}]}
  - step: hold
    tool:
      kind: python
      input: {seen: "{{ workload.seen }}", answer: "{{ ask }}"}
      code: |
        import os, subprocess, time
        subprocess.Popen(["sleep", "600"])
        while not os.path.exists(seen):
            time.sleep(0.05)
        result = answer
"""

PROCESS_MARKS = (b"python.child", b"duckdb.child", b"sleep\x00600")
"""Of the processes that the playbook starts, in their command lines."""

WELL = ("body", "json", "header", "deep")
BADLY = ("error", "long", "redirect")
AUTHS = ("basic", "bearer", "header", "environment")


class Echo(BaseHTTPRequestHandler):
    """Sends the secrets back: ``/body``, ``/json`` ... say how."""

    resolved_pairs: ClassVar[set[tuple[str, str]]] = set()
    """The secrets of the keychain that calls came with: (way, name)."""

    def do_POST(self) -> None:
        """The endpoint for tokens."""
        body = json.dumps({"access_token": PLANTS["fetched"], "token_type": "Bearer", "expires_in": 600}).encode()
        sent = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(200 if PLANTS["client"] in sent else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        sent_header = self.headers.get("Authorization") or self.headers.get("X-Thing") or ""
        kind, _, value = sent_header.partition(" ")
        plain = base64.b64decode(value).decode() if kind == "Basic" else sent_header
        spelling = [sent_header, plain, plain.upper(), quote(plain, safe=""), plain.encode().hex(), json.dumps(plain)]
        answer: dict[str, Any] = {"you": spelling}
        if kind == "Basic" or PLANTS["bearer"] in sent_header:  # whose credentials have it
            answer[PLANTS["neutral"]] = PLANTS["neutral"]
        if PLANTS["environment"] in sent_header:
            spelling += [PLANTS["query"], quote(PLANTS["query"], safe=""), PLANTS["vault"]]
        way = self.path.partition("?")[0].strip("/")
        if PLANTS["fetched"] in sent_header:
            headers = [self.path, *(self.headers[name] for name in ("X-Client", "X-Kept"))]
            self.resolved_pairs.update(
                (way, name) for name, secret in PLANTS.items() if secret in f"{sent_header} {headers}"
            )
            spelling += headers
        body = {
            "json": json.dumps(answer),
            "deep": '{"a":' * 90 + json.dumps(answer) + "}" * 90,
            "long": "." * 9_995 + plain + "." * 50,
        }.get(way, " ".join(spelling))
        self.send_response({"error": 401, "long": 500, "redirect": 302}.get(way, 200), f"for {plain}")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-You", " ".join(spelling[:2]))
        self.send_header("Location", f"/body?{quote(plain)}")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - as it is called there
        """Says nothing."""


@pytest.fixture
def echo() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        serving = threading.Thread(target=server.serve_forever)
        serving.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        serving.join()


def spellings(secret: str) -> set[bytes]:
    """Those that the server sends, and each half of the secret: it may stand before a cut."""
    raw = secret.encode()
    encodings = {base64.b64encode(bytes(before) + raw)[4:-4] for before in range(3)}
    halves = {raw[: len(raw) // 2 + 1], raw[len(raw) // 2 :]} - {b"canary", b"canary-"}
    plain = {raw, *halves, raw.hex().encode(), quote(secret, safe="").encode(), json.dumps(secret)[1:-1].encode()}
    return {*encodings, *plain, *(spelling.upper() for spelling in plain)}


def planted_in(text: bytes) -> set[str]:
    """The names of the secrets that stand somewhere in it."""
    return {name for name, secret in PLANTS.items() if any(spelling in text for spelling in spellings(secret))}


async def tables_of(dsn: str) -> bytes:
    """Every row of every table of a database, as text."""
    connection = await asyncpg.connect(dsn)
    try:
        table_names = await connection.fetch(
            "select format('%I.%I', schemaname, tablename) from pg_tables "
            "where schemaname not in ('pg_catalog', 'information_schema')"
        )
        records = [await connection.fetch(f"select t::text, to_json(t)::text from {name} t") for [name] in table_names]
        stored_values = [await connection.fetch(f"select * from {name}") for [name] in table_names]
        values = [value for rows in stored_values for row in rows for value in row.values() if isinstance(value, bytes)]
        return b"\n".join([str(records).encode(), *values])
    finally:
        await connection.close()


async def histories_of(address: str) -> bytes:
    """Every payload of every run, and the rest of its history."""
    client = await connect_temporal(address)
    histories: list[bytes] = []
    async for run in client.list_workflows():
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        histories += (event.SerializeToString() for event in history.events)
    return b"\n".join(histories)


@pytest.fixture
def search() -> Iterator[ProcessSearch]:
    """Of the processes of the test, while it runs."""
    with ProcessSearch(os.getpid()) as process_search:
        yield process_search


async def test_planted_secrets_are_found_nowhere(
    bare: Site, echo: str, search: ProcessSearch, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = bare.write(CREDENTIALS, "mine.yaml")
    for name, fields in {"environment": ENVIRONMENT, **READABLE}.items():
        monkeypatch.setenv(f"NOETL_CREDENTIAL_{name.upper()}", json.dumps(fields))
    assert bare.noetl("dev", "up").returncode == 0
    search.roots.add(bare.addresses().owner_pid)
    outputs: list[str] = []
    for name, text, ways in (
        ("stored", STORING_PLAYBOOK, WELL),
        ("failing", FAILING, BADLY),
        ("keychain", KEYCHAIN, WELL),
    ):
        requests = [{"path": way, "auth": auth} for way in ways for auth in AUTHS]
        playbook = bare.write(text, f"{name}.yaml")
        arguments = ("--set", f"url={echo}", "--set", f"ways={json.dumps(requests)}", "--credentials", str(file))
        done = bare.noetl("run", str(playbook), "--json", *arguments)
        assert "***" in done.stdout, done.stderr
        report = json.loads(done.stdout)
        outputs += [done.stdout, done.stderr]
        for command in ("status", "events"):
            result = bare.noetl(command, str(report["execution_id"]))
            outputs += [result.stdout, result.stderr]
        assert report["steps"]["ask"]["status"] == "completed", done.stdout
    assert [report["steps"][name]["status"] for name in ("start", "count", "raise")] == [
        "completed",
        "failed",
        "failed",
    ]
    called_steps = (*WELL, "framed", "error")
    assert Echo.resolved_pairs == {
        (way, name) for way in called_steps for name in ("readable", "client", "fetched", "only")
    }
    addresses = bare.addresses()
    tables, log = await tables_of(addresses.playbooks), await tables_of(addresses.postgres)
    history = await histories_of(addresses.temporal)
    assert tables.count(b"***") >= len(WELL) * len(AUTHS)
    assert min(log.count(b"***"), history.count(b"***")) > len(AUTHS)
    assert bare.noetl("dev", "down").returncode == 0
    files = [path for root in (bare.folder, bare.home.root) for path in root.rglob("*") if path.is_file()]
    assert bare.home.temporal_database in files
    file_contents = {str(path): path.read_bytes() for path in files if path != file}
    processes = {"command lines": search.commands, "environments": search.environments}
    stored_values = {
        "printed": "".join(outputs).encode(),
        "tables": tables,
        "log": log,
        "history": history,
        **file_contents,
    }
    searched_texts = {**processes, **stored_values}
    assert {location: planted for location, text in searched_texts.items() if (planted := planted_in(text))} == {}


@HAS_PROC
async def test_planted_secrets_are_in_no_command_line_and_in_no_environment_of_a_task(
    bare: Site, echo: str, search: ProcessSearch, task_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are the stack's own. The worker's environment has what the deployment gives it."""
    file, seen_file = bare.write(CREDENTIALS, "mine.yaml"), task_folder / "seen"
    monkeypatch.setenv("NOETL_CREDENTIAL_ENVIRONMENT", json.dumps(ENVIRONMENT))
    assert bare.noetl("dev", "up").returncode == 0
    try:
        addresses = bare.addresses()
        search.roots.add(addresses.owner_pid)
        arguments = ("--set", f"url={echo}", "--set", f"seen={seen_file}", "--credentials", str(file))
        run = bare.start("run", str(bare.write(HELD, "held.yaml")), "--json", *arguments)
        assert wait_until(
            lambda: all(secret in search.commands for secret in PROCESS_MARKS) or run.poll() is not None, 120
        )
        seen_file.touch()
        outputs = run.communicate(timeout=120)
        assert run.returncode == 0, outputs
    finally:
        bare.noetl("dev", "down")
    assert search.workers
    assert search.environments.count(b"PATH=") >= len(PROCESS_MARKS)
    keys = [addresses.postgres_password, addresses.playbooks_password, addresses.reader_password]
    for texts in (search.commands, search.environments):
        assert planted_in(texts) == set()
        assert [key for key in keys if key.encode() in texts] == []


@HAS_PROC
def test_control_the_search_finds_an_argument_and_an_environment(search: ProcessSearch) -> None:
    """Of a process that lives as long as a task, started by what looks like a worker."""
    start = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()', sys.argv[2]], env={'X': sys.argv[2]})"
    )
    command = [sys.executable, "-c", start, "worker", PLANTS["header"]]
    with subprocess.Popen(command, stdin=subprocess.PIPE, env={"WORKERS": PLANTS["dsn"]}) as worker:
        assert wait_until(lambda: planted_in(search.environments) == {"header"})
        assert planted_in(search.commands) == {"header"}
        worker.communicate(b"\n")


def test_control_the_search_finds_what_is_planted() -> None:
    for name, secret in PLANTS.items():
        for spelled in (
            secret,
            secret.upper(),
            quote(secret, safe=""),
            secret.encode().hex(),
            secret[: len(secret) - 3],
        ):
            assert planted_in(f"x{spelled}x".encode()) == {name}
        encoded_login = base64.b64encode(f"a:{secret}".encode())
        assert planted_in(encoded_login) == {name}
