"""Upstream's playbooks of transfers and NATS, unchanged, and a sweep of a quantum circuit, as a person runs them."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import asyncpg
import pytest

from tests.acceptance.site import ROOT, Site
from tests.nats_server import LOGIN, bucket

CORPUS = ROOT.parent / "shared/corpus"
POSTS = [{"userId": number % 3, "id": number, "title": f"title {number}", "body": "text"} for number in range(1, 101)]
TRANSFERS = [
    # (file, the table that it fills)
    (
        "e2e@HEAD/fixtures/playbooks/data_transfer/http_to_postgres_transfer/http_to_postgres_transfer.yaml",
        "http_to_postgres_transfer",
    ),
    ("noetl@2025-10-31/tests/fixtures/playbooks/data_transfer/http_to_postgres_transfer.yaml", "http_posts"),
    (
        "noetl@2025-12-10/documentation/docs/examples/http_to_postgres_bulk/http_to_postgres_bulk.yaml",
        "http_to_postgres_bulk",
    ),
]

pytestmark = pytest.mark.stack


class Posts(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        text = json.dumps(POSTS).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name of the base class
        """Nobody reads it."""


@pytest.fixture(scope="module")
def posts() -> Iterator[str]:
    """The address of a hundred posts."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Posts) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/posts"
        server.shutdown()


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
@pytest.mark.parametrize(("file", "table"), TRANSFERS, ids=["v10", "v1", "legacy"])
async def test_upstreams_transfers_store_every_row(
    site: Site, playbooks: asyncpg.Connection[asyncpg.Record], posts: str, file: str, table: str
) -> None:
    report = await asyncio.to_thread(site.run, CORPUS / file, "--set", f"api_url={posts}")
    assert report["status"] == "completed", report["failures"]
    records = await playbooks.fetch(f"select post_id, user_id, title, body from public.{table} order by post_id")
    assert [tuple(row) for row in records] == [
        (post["id"], post["userId"], post["title"], post["body"]) for post in POSTS
    ]


@pytest.mark.skipif(not CORPUS.exists(), reason="the corpus is not here")
async def test_upstreams_playbook_of_a_bucket(bare: Site, nats_address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOETL_CREDENTIAL_NATS_CREDENTIAL", json.dumps({"type": "nats", "url": nats_address, **LOGIN}))
    async with bucket(nats_address, "sessions"):
        report = await asyncio.to_thread(bare.run, CORPUS / "e2e@HEAD/fixtures/playbooks/test_nats_kv.yaml")
    assert report["status"] == "completed", report["failures"]
    assert list(report["steps"]) == ["start", "kv_put", "kv_get", "kv_delete", "end"]


SWEEP = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: sweep, path: tests/sweep}
workflow:
  - step: start
    loop: {in: [0, 3.141592653589793], iterator: theta, spec: {mode: sequential}}
    tool:
      kind: quantum
      backend: fake_manila
      shots: 100
      seed: 1
      params: ["{{ iter.theta }}"]
      circuit: |
        OPENQASM 3.0;
        include "stdgates.inc";
        input float[64] theta;
        qubit[1] q;
        bit[1] c;
        rx(theta) q[0];
        c = measure q;
    next: {arcs: [{step: end}]}
  - step: end
    tool: {kind: noop, result: "{{ start.results | map(attribute='counts') | list }}"}
"""


def test_a_quantum_circuit_with_parameter_sets(site: Site) -> None:
    report = site.run(site.write(SWEEP, "sweep.yaml"))
    assert report["status"] == "completed", report["failures"]
    assert report["result"] == [{"0": 100}, {"1": 100}]
