"""Serve a run in the process that follows it."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from temporalio.client import Client

from noetl_activities.credentials import CredentialSource
from noetl_activities.tool import load_tools
from noetl_activities.variables import CREDENTIALS_VARIABLE
from noetl_temporal.credential_source import credential_source
from noetl_temporal.mirror.service import mirroring
from noetl_temporal.worker import serving, tool_worker

__all__ = ["serve_all", "serve_tools"]


@asynccontextmanager
async def serve_all(client: Client, dsn: str, credentials: Path | None) -> AsyncGenerator[None]:
    """As worker and mirror of a stack that has no other."""
    async with mirroring(client, dsn), serving(client, load_tools(), _source(credentials)):
        yield


@asynccontextmanager
async def serve_tools(client: Client, credentials: Path | None) -> AsyncGenerator[dict[str, str]]:
    """As the only worker that has these credentials: the queues of its tools, by kind."""
    token = secrets.token_hex(4)
    tools, source = load_tools(), _source(credentials)
    queues = {kind: f"noetl-{kind}-{token}" for kind in tools}
    async with AsyncExitStack() as workers:
        for kind, tool in tools.items():
            await workers.enter_async_context(tool_worker(client, tool, source, queues[kind]))
        yield queues


def _source(credentials: Path | None) -> CredentialSource:
    """``credentials`` is named in the environment as well: what is named there is hidden from tasks."""
    if credentials is not None:
        os.environ[CREDENTIALS_VARIABLE] = str(credentials.resolve())
    return credential_source(credentials)
