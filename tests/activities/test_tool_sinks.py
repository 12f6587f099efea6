"""Sinks that call a tool: http sends the data, python runs code over it. At least once, always with the same key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import pytest

from noetl_activities.errors import ConfigError, SinkError
from noetl_activities.sinks import Entry, OutcomeLookup, SinkRequest, find_outcome, store

from .conftest import Context


class SentRequest(NamedTuple):
    """A request that the server got."""

    method: str
    path: str
    headers: dict[str, str]
    body: Any


class Server(NamedTuple):
    """``url`` ends without a slash. Below ``/fail`` it answers 503."""

    url: str
    requests: list[SentRequest]


@pytest.fixture
def server(loopback: None) -> Iterator[Server]:
    requests: list[SentRequest] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.append(SentRequest(self.command, self.path, headers, json.loads(body) if body else None))
            self.send_response(503 if self.path.startswith("/fail") else 201)
            self.end_headers()

        do_PUT = do_POST  # noqa: N815 - the name is http.server's

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is http.server's
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        Thread(target=listener.serve_forever, daemon=True).start()
        yield Server(f"http://127.0.0.1:{listener.server_port}", requests)
        listener.shutdown()


async def sink(kind: str, config: dict[str, Any], result: Any = None, auth: Any = None, **entry: Any) -> Any:
    context = Context(token={"type": "bearer", "token": "s3cret-token"})
    entry_ = Entry("42/start/0/call/1/sink0", **entry)
    return await store(SinkRequest(kind, config, "insert", entry_, result, auth), context)


async def test_http_posts_the_result(server: Server) -> None:
    result = await sink("http", {"url": f"{server.url}/in"}, {"id": 7})
    assert (result.rows, result.is_in_ledger) == (0, False)
    [request_] = server.requests
    assert (request_.method, request_.path, request_.body) == ("POST", "/in", {"id": 7})


async def test_http_sends_what_the_playbook_names(server: Server) -> None:
    config = {"url": f"{server.url}/in", "method": "PUT", "headers": {"X-Suite": "a"}, "params": {"q": 1}, "data": [1]}
    await sink("http", config, {"id": 7}, auth="token")
    [request_] = server.requests
    assert (request_.method, request_.path, request_.body, request_.headers["x-suite"]) == ("PUT", "/in?q=1", [1], "a")
    assert request_.headers["authorization"] == "Bearer s3cret-token"


async def test_http_sends_the_columns_of_a_mapping(server: Server) -> None:
    await sink("http", {"url": server.url, "mapping": {"key": "user.id"}}, [{"user": {"id": 1}}, {"user": {"id": 2}}])
    assert [request_.body for request_ in server.requests] == [[{"key": 1}, {"key": 2}]]


async def test_attempts_have_one_key_and_calls_have_their_own(server: Server) -> None:
    for n in (1, 1, 2):
        await sink("http", {"url": server.url}, {}, repetition=n)
    first, second_key, other = (request_.headers["idempotency-key"] for request_ in server.requests)
    assert first == second_key != other


async def test_a_response_other_than_2xx_is_an_error_that_rules_see(server: Server) -> None:
    with pytest.raises(SinkError, match="returned 503") as failure:
        await sink("http", {"url": f"{server.url}/fail"}, {"id": 7})
    error = failure.value.outcome.error
    assert error is not None
    assert (error.status, error.retryable) == (503, True)


async def test_http_needs_a_url() -> None:
    with pytest.raises(ConfigError, match="needs a url"):
        await sink("http", {}, {"id": 7})


@pytest.mark.parametrize(
    ("config", "result"),
    [
        ({"code": "assert data == {'id': 7}"}, {"id": 7}),
        ({"code": "assert id == 7"}, {"id": 7}),
        ({"code": "def main(data): assert data == [1, 2]"}, [1, 2]),
        ({"code": "def main(data): assert data['a'] == 1", "data": {"a": 1}}, {"id": 7}),
        ({"code": "def main(data): assert data == 5", "data": {"data": 5}}, None),
        ({"code": "assert len(idempotency_key) == 32"}, None),
    ],
)
async def test_python_sees_the_data_and_its_names(config: dict[str, Any], result: Any) -> None:
    await sink("python", config, result)
    with pytest.raises(SinkError, match="AssertionError"):
        await sink("python", {**config, "code": config["code"].replace("==", "!=")}, result)


async def test_a_kind_without_a_transaction_has_no_outcome_to_find(tmp_path: Path) -> None:
    assert await find_outcome(OutcomeLookup("http", {}, None, "key", 1), Context()) is None
