"""Health and metrics of a worker or a mirror over HTTP, for a supervisor and Prometheus (``--health``).

| path | answer |
|---|---|
| /healthz | 200 while the event loop of the process answers: restart it if it does not |
| /readyz | 200 while it serves and Temporal answers, else 503 with the reason |
| /metrics | metrics as text for Prometheus: those of Temporal's SDK and of metrics.py, or of mirror/gauges.py |

The SDK's exporter listens on a port of its own on the loopback, from which a worker's /metrics is passed on.
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

from noetl_temporal.http_listener import QuietHandler, listening

__all__ = ["exported", "free_address", "serving_health"]

ANSWER_SECONDS = 5.0

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_JSON = "application/json"


class _Answer(NamedTuple):
    status: HTTPStatus
    body: bytes
    content_type: str = _JSON


def free_address() -> str:
    """Return a loopback address on which nothing listens now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@asynccontextmanager
async def serving_health(
    address: tuple[str, int],
    client: Client,
    served: Callable[[], str],
    metrics: Callable[[], Coroutine[Any, Any, str]],
) -> AsyncGenerator[int]:
    """Answer on this host and port while the block runs; the port. ``served`` says what the process serves now, "" when
    it stops; ``metrics`` is called on the caller's loop, and raises OSError where there are none. Raises OSError if it
    cannot listen.
    """
    loop = asyncio.get_running_loop()

    async def measured() -> _Answer:
        return _Answer(HTTPStatus.OK, (await metrics()).encode(), _TEXT)

    def on_loop(answer: Callable[[], Coroutine[Any, Any, _Answer]]) -> _Answer:
        return asyncio.run_coroutine_threadsafe(answer(), loop).result(ANSWER_SECONDS)

    async def alive() -> _Answer:
        return _json(HTTPStatus.OK, {"status": "alive"})

    async def ready() -> _Answer:
        serves = served()
        if not serves:
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, {"status": "stopping"})
        try:
            await asyncio.wait_for(client.service_client.check_health(), ANSWER_SECONDS / 2)
        except (RPCError, RuntimeError, TimeoutError) as error:
            reason = f"Temporal does not answer: {error or 'timed out'}"
            health: dict[str, str | list[str]] = {"status": "disconnected", "reason": reason, "serves": serves}
            return _json(HTTPStatus.SERVICE_UNAVAILABLE, health)
        return _json(HTTPStatus.OK, {"status": "ready", "serves": serves})

    class Handler(_Handler):
        routes = {  # noqa: RUF012 - never changed
            "/healthz": lambda: on_loop(alive),
            "/readyz": lambda: on_loop(ready),
            "/metrics": lambda: on_loop(measured),
        }

    async with listening(Handler, *address) as (_, port):
        yield port


def _json(status: HTTPStatus, fields: dict[str, str | list[str]]) -> _Answer:
    return _Answer(status, json.dumps(fields).encode())


async def exported(address: str) -> str:
    """Return what the SDK's exporter at ``HOST:PORT`` says. Raises OSError."""
    return await asyncio.to_thread(_read, address)


def _read(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=ANSWER_SECONDS) as response:
        text: str = response.read().decode()
        return text


class _Handler(QuietHandler):
    routes: dict[str, Callable[[], _Answer]]

    def do_GET(self) -> None:  # noqa: N802 - the base class names it so
        """Answer by path."""
        route = self.routes.get(self.path.partition("?")[0])
        if route is None:
            self._send(_json(HTTPStatus.NOT_FOUND, {"paths": list(self.routes)}))
            return
        try:
            answer = route()
        except (OSError, TimeoutError) as error:
            answer = _json(HTTPStatus.SERVICE_UNAVAILABLE, {"reason": str(error) or "the process does not answer"})
        self._send(answer)

    def _send(self, answer: _Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)
