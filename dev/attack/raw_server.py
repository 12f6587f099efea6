"""A server that responds with arbitrary bytes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable

__all__ = ["Answer", "Talk", "accepting", "answering", "head", "serving"]

Answer = Callable[[asyncio.StreamWriter], Awaitable[None]]
Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def accepting(talk: Talk) -> AsyncGenerator[int]:
    """Serve on loopback and yield the port. ``talk`` handles each connection; open ones are ended at the end."""
    running: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await talk(reader, writer)
        running.discard(task)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(running):
            task.cancel()
        if running:
            await asyncio.wait(running)


@contextlib.asynccontextmanager
async def serving(answer: Answer) -> AsyncGenerator[str]:
    """Serve on loopback and yield the address. The server reads the head of a request, and ``answer`` responds."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await answer(writer)

    async with accepting(talk) as port:
        yield f"http://127.0.0.1:{port}"


def answering(body: bytes, *headers: str, status: str = "200 OK") -> Answer:
    """Return an answer with these headers and this body."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head(f"Content-Length: {len(body)}", *headers, status=status) + body)
        await writer.drain()

    return answer


def head(*headers: str, status: str = "200 OK") -> bytes:
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, "Connection: close", "", ""]).encode()
