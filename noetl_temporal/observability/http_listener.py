"""A small HTTP server that runs beside the event loop, in threads of its own."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["QuietHandler", "listening"]

READ_SECONDS = 10.0

_log = logging.getLogger(__name__)


class QuietHandler(BaseHTTPRequestHandler):
    """A request handler that logs no requests and names no versions."""

    timeout = READ_SECONDS
    server_version = "noetl"
    sys_version = ""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Log nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""
        del request, client_address
        _log.debug("a request was not answered", exc_info=True)


class _ServerOnIPv6(_Server):
    address_family = socket.AF_INET6


@asynccontextmanager
async def listening(handler: type[BaseHTTPRequestHandler], host: str, port: int) -> AsyncGenerator[tuple[str, int]]:
    """Serve requests with ``handler`` while the block runs, and yield the host and the port. ``host`` is an IPv4 or
    IPv6 address or a name; ``port`` 0 means any free one. Raises OSError if it cannot listen there.
    """
    server = (_ServerOnIPv6 if ":" in host else _Server)((host, port), handler)
    running = asyncio.create_task(asyncio.to_thread(server.serve_forever))
    try:
        yield host, server.server_address[1]
    finally:
        await asyncio.to_thread(server.shutdown)
        await running
        server.server_close()
