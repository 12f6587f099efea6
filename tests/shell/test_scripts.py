"""Code in other files is fetched when a playbook is submitted, and never again."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from noetl_activities.credentials import CredentialSource
from noetl_activities.tool import load_tools
from noetl_compiler import CompileError, compile_or_raise
from noetl_temporal.client import NoetlClient
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.submission.unsupported import UnsupportedError
from noetl_temporal.worker import serving

from .conftest import HEAD
from .servers import on_loopback

PLAYBOOK = f"""{HEAD}workload:
  file: wrong.py
  url: http://127.0.0.1:1
workflow:
  - step: start
    tool:
      kind: python
      script: {{uri: "{{{{ file }}}}", source: {{type: file}}}}
      input: {{n: 20}}
    next: {{arcs: [{{step: rows}}]}}
  - step: rows
    tool:
      kind: postgres
      auth: pg_local
      script: {{uri: sql/rows.sql, source: {{type: file}}}}
    next: {{arcs: [{{step: sum}}]}}
  - step: sum
    tool:
      kind: python
      script: {{uri: sum.py, source: {{type: http, endpoint: "{{{{ workload.url }}}}/sum.py"}}}}
      input: {{twice: "{{{{ start }}}}", rows: "{{{{ rows.rows }}}}"}}
"""


def write_playbook(folder: Path) -> Path:
    (folder / "sql").mkdir()
    (folder / "twice.py").write_text("def main(n):\n    return n * 2\n")
    (folder / "sql" / "rows.sql").write_text("create temp table few (n int);\nselect 2 as n;\n")
    (folder / "p.yaml").write_text(PLAYBOOK)
    return folder / "p.yaml"


async def test_a_submitted_playbook_has_its_scripts(
    servers: Addresses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOETL_HTTP_ALLOW", "127.0.0.0/8")
    file, requests = write_playbook(tmp_path), list[str]()

    async def answer(request: Request) -> Response:
        requests.append(request.url.path)
        return PlainTextResponse("result = twice + rows[0]['n']")

    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=load_tools())
    async with on_loopback(Route("/sum.py", answer)) as url:
        handle = await client.submit(file, {"file": "twice.py", "url": url})
    (tmp_path / "twice.py").write_text("raise ValueError('fetched again')")
    source = CredentialSource(environment=servers.environment())
    async with serving(client.temporal, load_tools(), source):
        report = await handle.result()
    assert report.status == "completed", report.failures
    assert report.result == 42
    assert requests == ["/sum.py"]


async def test_a_missing_script_is_refused_before_anything_starts(servers: Addresses, tmp_path: Path) -> None:
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=load_tools())
    with pytest.raises(CompileError, match=r'there is no file "wrong.py" in the folder of the playbook'):
        await client.submit(write_playbook(tmp_path))


async def test_a_graph_without_the_code_is_refused(servers: Addresses) -> None:
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=load_tools())
    with pytest.raises(UnsupportedError, match="was not fetched: submit the playbook as a file"):
        await client.submit(compile_or_raise(PLAYBOOK))
