"""The option ``--health HOST:PORT`` of commands that run until they are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import click
from temporalio.client import Client

from noetl_temporal.observability.health import serve_health

__all__ = ["serve_optional_health"]


@asynccontextmanager
async def serve_optional_health(
    address: tuple[str, int] | None,
    client: Client,
    stop_request: asyncio.Event,
    description: str,
    metrics: Callable[[], Coroutine[Any, Any, str]],
) -> AsyncGenerator[None]:
    """Serve health checks and metrics while the block runs, if there is an address.

    Raises click.UsageError if it cannot listen there.
    """
    if address is None:
        yield
        return
    async with AsyncExitStack() as stack:
        serving = serve_health(address, client, lambda: "" if stop_request.is_set() else description, metrics)
        try:
            await stack.enter_async_context(serving)
        except OSError as error:
            raise click.UsageError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}") from None
        yield
