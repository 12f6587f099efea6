"""Health and metrics of a worker or a mirror over HTTP, for a supervisor and Prometheus (``--health``).

| path | response |
|---|---|
| /healthz | 200 while the event loop of the process responds: restart the process if it does not |
| /readyz | 200 while the process serves and Temporal responds, else 503 with the reason |
| /metrics | metrics as text for Prometheus: those of Temporal's SDK and of metrics.py, or of mirror/gauges.py |

The SDK's exporter listens on another port, on the loopback; a worker's /metrics returns what it serves.
"""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.request
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any, NamedTuple

from temporalio.client import Client
from temporalio.service import RPCError

from noetl_temporal.observability.http_listener import QuietHandler, listening

__all__ = ["free_address", "scrape_metrics", "serve_health"]

RESPONSE_SECONDS = 5.0

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_JSON = "application/json"


class _Response(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = _JSON


def free_address() -> str:
    """Return a loopback address, ``HOST:PORT``, on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@asynccontextmanager
async def serve_health(
    address: tuple[str, int],
    client: Client,
    describe_serving: Callable[[], str],
    metrics: Callable[[], Coroutine[Any, Any, str]],
) -> AsyncGenerator[int]:
    """Serve on this host and port while the block runs, and yield the port.

    ``describe_serving`` returns a description of what the process serves, "" while it stops. ``metrics`` is called on
    the caller's event loop, and may raise OSError. Raises OSError if the server cannot listen on the host and port.
    """
    loop = asyncio.get_running_loop()

    async def metrics_response() -> _Response:
        return _Response(HTTPStatus.OK, (await metrics()).encode(), _TEXT)

    def run_on_loop(respond: Callable[[], Coroutine[Any, Any, _Response]]) -> _Response:
        return asyncio.run_coroutine_threadsafe(respond(), loop).result(RESPONSE_SECONDS)

    async def liveness_response() -> _Response:
        return _json(HTTPStatus.OK, {"status": "alive"})

    async def readiness_response() -> _Response:
        description = describe_serving()
        if not description:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "stopping"})
        try:
            await asyncio.wait_for(client.service_client.check_health(), RESPONSE_SECONDS / 2)
        except (RPCError, RuntimeError, TimeoutError) as error:
            reason = f"Temporal does not answer: {error or 'timed out'}"
            health: dict[str, str | list[str]] = {"status": "disconnected", "reason": reason, "serves": description}
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, health)
        return _json(HTTPStatus.OK, {"status": "ready", "serves": description})

    class Handler(_Handler):
        routes = {  # noqa: RUF012 - never changed
            "/healthz": lambda: run_on_loop(liveness_response),
            "/readyz": lambda: run_on_loop(readiness_response),
            "/metrics": lambda: run_on_loop(metrics_response),
        }

    async with listening(Handler, *address) as (_, port):
        yield port


def _json(status: HTTPStatus, fields: dict[str, str | list[str]]) -> _Response:
    return _Response(status, json.dumps(fields).encode())


async def scrape_metrics(address: str) -> str:
    """Return the metrics that the SDK's exporter serves at ``HOST:PORT``. Raises OSError."""
    return await asyncio.to_thread(_read, address)


def _read(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=RESPONSE_SECONDS) as response:
        text: str = response.read().decode()
        return text


class _Handler(QuietHandler):
    routes: dict[str, Callable[[], _Response]]

    def do_GET(self) -> None:  # noqa: N802 - the base class names it so
        """Respond to a request by its path."""
        route = self.routes.get(self.path.partition("?")[0])
        if route is None:
            self._send(_json(HTTPStatus.NOT_FOUND, {"paths": list(self.routes)}))
            return
        try:
            response = route()
        except (OSError, TimeoutError) as error:
            response = _json(HTTPStatus.SERVICE_UNAVAILABLE, {"reason": str(error) or "the process does not answer"})
        self._send(response)

    def _send(self, response: _Response) -> None:
        self.send_response(response.status)
        self.send_header("Content-Type", response.content_type)
        self.send_header("Content-Length", str(len(response.body)))
        self.end_headers()
        self.wfile.write(response.body)
