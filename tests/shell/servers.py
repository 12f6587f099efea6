"""Real servers beside the stack: a web server that counts its calls, and a proxy that a test disconnects."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

__all__ = ["Proxy", "Site", "on_loopback", "proxy_to", "site"]


class Site:
    """Answers ``/size/N`` with a text of N characters once ``open`` is set, and counts the calls by path.

    After :meth:`answer_only` later calls wait.
    """

    def __init__(self) -> None:
        self.url = ""
        self.calls: Counter[str] = Counter()
        self.open = asyncio.Event()
        self.open.set()
        self._answers: int | None = None
        self._may_answer = asyncio.Condition()

    async def answer_only(self, first: int | None) -> None:
        """Answer the ``first`` calls since the start; None: every call."""
        async with self._may_answer:
            self._answers = first
            self._may_answer.notify_all()

    async def answer(self, request: Request) -> Response:
        """Count a call and answer it."""
        self.calls[request.url.path] += 1
        number = self.calls.total()
        await self.open.wait()
        async with self._may_answer:
            await self._may_answer.wait_for(lambda: self._answers is None or number <= self._answers)
        size = int(request.path_params["size"])
        return JSONResponse({"call": self.calls[request.url.path], "text": "x" * size})


@asynccontextmanager
async def site() -> AsyncGenerator[Site]:
    """A web server on loopback."""
    site = Site()
    async with on_loopback(Route("/size/{size}", site.answer, methods=["GET", "POST"])) as site.url:
        try:
            yield site
        finally:
            site.open.set()
            await site.answer_only(None)


@asynccontextmanager
async def on_loopback(*routes: Route) -> AsyncGenerator[str]:
    """The URL of a web server with these routes."""
    app = Starlette(routes=routes)
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(server.serve([listening]))
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        await serving
        listening.close()


class Proxy:
    """Passes TCP connections on to a Postgres on this machine. ``dsn`` is that database through the proxy,
    ``connection_count`` counts the connections.
    """

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self._target = ("127.0.0.1", parts.port or 5432)
        self._port = _free_port()
        login = parts.netloc.rpartition("@")[0]
        self.dsn = parts._replace(netloc=f"{login}@127.0.0.1:{self._port}").geturl()
        self.connection_count = 0
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    async def restore(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._pass, "127.0.0.1", self._port)

    async def disconnect(self) -> None:
        """Refuse new connections and close the existing ones."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.transport.abort()
        self._server = None

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connection_count += 1
        with suppress(OSError):
            target_reader, target_writer = await asyncio.open_connection(*self._target)
            self._writers |= {writer, target_writer}
            await asyncio.gather(self._pump(reader, target_writer), self._pump(target_reader, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()
        self._writers.discard(writer)


@asynccontextmanager
async def proxy_to(dsn: str) -> AsyncGenerator[Proxy]:
    """A proxy that accepts connections until the end of the context."""
    proxy = Proxy(dsn)
    await proxy.restore()
    try:
        yield proxy
    finally:
        await proxy.disconnect()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])
