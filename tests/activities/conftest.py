"""A web server, a context and the embedded Postgres for the tools."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request as WebRequest
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.tool import Credential, Json, OutputStream, Request
from noetl_temporal.stack.addresses import Addresses


class Context:
    """What a tool may ask, over fixed credentials."""

    attempt = 1

    def __init__(self, **credentials: Any) -> None:
        environment = {f"NOETL_CREDENTIAL_{name.upper()}": json.dumps(fields) for name, fields in credentials.items()}
        self.credentials = Credentials(CredentialSource(environment=environment))
        self.output_lines: list[tuple[OutputStream, str]] = []

    def heartbeat(self) -> None:
        """Nobody listens."""

    async def credential(self, auth: Json) -> Credential:
        return await self.credentials.resolve(auth)

    async def secret(self, name: str, entry_kind: str, config: dict[str, Json]) -> str:
        return await self.credentials.reference(name, entry_kind, config)

    def truncate(self, text: str, limit: int) -> str:
        return self.credentials.truncate(text, limit)

    def output(self, stream: OutputStream, text: str) -> None:
        self.output_lines.append((stream, text))


def request(kind: str, auth: Json = None, limit: float | None = 10, **config: Json) -> Request:
    inputs = config.pop("input", {})
    return Request(kind, config, inputs, auth, timeout=limit, execution_id="42")


async def echo(web: WebRequest) -> Response:
    body = (await web.body()).decode()
    answer = {"method": web.method, "query": dict(web.query_params), "headers": dict(web.headers), "body": body}
    return JSONResponse(answer)


async def around(_web: WebRequest) -> Response:
    return RedirectResponse("/round")


async def status(web: WebRequest) -> Response:
    headers = {"Retry-After": web.query_params["after"]} if "after" in web.query_params else {}
    why = "because" * int(web.query_params.get("times", 1))
    return JSONResponse({"why": why}, int(web.path_params["code"]), headers)


async def slow(_web: WebRequest) -> Response:
    await asyncio.sleep(3)
    return PlainTextResponse("late")


async def away(web: WebRequest) -> Response:
    return RedirectResponse(web.query_params["to"], int(web.query_params.get("code", 307)))


async def large(_web: WebRequest) -> Response:
    return PlainTextResponse("x" * (17 * 1024 * 1024))


async def data(web: WebRequest) -> Response:
    gzip_response = Response(b"no gzip", headers={"content-encoding": "gzip"})
    kinds = {
        "broken": gzip_response,
        "text": PlainTextResponse("plain"),
        "none": Response(status_code=204),
        "bytes": Response(b"\xff\x00"),
    }
    return kinds[web.path_params["kind"]]


async def people(web: WebRequest) -> Response:
    """Ten rows below ``data.people``."""
    rows = [{"id": number, "user": {"name": f"name {number}"}} for number in range(1, 11)]
    return JSONResponse({"data": {"people": rows}})


ROUTES = [
    Route("/people", people),
    Route("/echo", echo, methods=["GET", "POST", "PUT", "DELETE"]),
    Route("/status/{code}", status),
    Route("/slow", slow),
    Route("/away", away, methods=["GET", "POST", "PUT", "DELETE"]),
    Route("/round", around),
    Route("/large", large),
    Route("/data/{kind}", data),
]


@pytest.fixture(scope="session")
async def web() -> AsyncGenerator[str]:
    """The address of a web server on loopback."""
    async with _web_server() as port:
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
async def https(certificate: Path) -> AsyncGenerator[str]:
    """The address of the same with TLS, under a certificate that nobody vouches for."""
    async with _web_server(ssl_certfile=str(certificate)) as port:
        yield f"https://localhost:{port}"


@contextlib.asynccontextmanager
async def _web_server(**config: Any) -> AsyncGenerator[int]:
    """Its port."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(Starlette(routes=ROUTES), log_level="critical", lifespan="off", **config))
    serving = asyncio.create_task(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    yield listening.getsockname()[1]
    server.should_exit = True
    await serving
    listening.close()


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key, and a certificate for localhost that vouches for itself, in one file."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make a certificate")
    file = tmp_path / "server.pem"
    arguments = ("-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
    more = ("-addext", "subjectAltName=DNS:localhost", "-keyout", str(tmp_path / "key.pem"), "-out", str(file))
    subprocess.run(["openssl", "req", *arguments, *more], check=True, capture_output=True)
    file.write_text(file.read_text() + (tmp_path / "key.pem").read_text())
    return file


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard allows loopback, as the embedded stack does."""
    monkeypatch.setenv("NOETL_HTTP_ALLOW", "127.0.0.0/8,localhost")


@pytest.fixture
def postgres(servers: Addresses) -> Context:
    """A context whose credential ``pg`` is the embedded Postgres."""
    return Context(pg={"type": "postgres", "dsn": servers.postgres})
