"""``--health HOST:PORT`` of commands that serve until they are stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import click
from temporalio.client import Client

from noetl_temporal.health import serving_health

__all__ = ["answering_health"]


@asynccontextmanager
async def answering_health(
    address: tuple[str, int] | None,
    client: Client,
    stopped: asyncio.Event,
    served: str,
    metrics: Callable[[], Coroutine[Any, Any, str]],
) -> AsyncGenerator[None]:
    """Answer while the block runs, unless there is no address. Raises click.UsageError if it cannot listen there."""
    if address is None:
        yield
        return
    async with AsyncExitStack() as stack:
        serves = serving_health(address, client, lambda: "" if stopped.is_set() else served, metrics)
        try:
            await stack.enter_async_context(serves)
        except OSError as error:
            raise click.UsageError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}") from None
        yield
