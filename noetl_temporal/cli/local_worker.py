"""Workers in the process that follows a run."""

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
from noetl_temporal.mirror.service import mirroring
from noetl_temporal.submission.credential_source import credential_source
from noetl_temporal.worker import serving, tool_worker

__all__ = ["serve_all", "serve_tools"]


@asynccontextmanager
async def serve_all(client: Client, dsn: str, credentials: Path | None) -> AsyncGenerator[None]:
    """Serve as the only worker and mirror of a stack while the block runs."""
    async with mirroring(client, dsn), serving(client, load_tools(), _source(credentials)):
        yield


@asynccontextmanager
async def serve_tools(client: Client, credentials: Path | None) -> AsyncGenerator[dict[str, str]]:
    """Serve all tools with these credentials on queues of their own while the block runs; yields the queues by kind."""
    token = secrets.token_hex(4)
    tools, source = load_tools(), _source(credentials)
    queues = {kind: f"noetl-{kind}-{token}" for kind in tools}
    async with AsyncExitStack() as workers:
        for kind, tool in tools.items():
            await workers.enter_async_context(tool_worker(client, tool, source, queues[kind]))
        yield queues


def _source(credentials: Path | None) -> CredentialSource:
    """Return the source of credentials. The file is named in the environment as well, because such files are hidden
    from tasks.
    """
    if credentials is not None:
        os.environ[CREDENTIALS_VARIABLE] = str(credentials.resolve())
    return credential_source(credentials)
