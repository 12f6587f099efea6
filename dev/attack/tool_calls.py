"""Calls of tools as a worker makes them, with credentials that the attack knows."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.outcome import Json, Outcome
from noetl_activities.tool import Credential, OutputStream, Request, Tool

__all__ = ["EXECUTION", "Context", "call"]

EXECUTION = "42"
SECONDS = 60.0
"""The time limit, far above the duration of a call that is stopped."""


class Context:
    """The context of a call, with these credentials by name."""

    attempt = 1

    def __init__(self, credentials: Mapping[str, Mapping[str, Json]]) -> None:
        environment = {f"NOETL_CREDENTIAL_{name.upper()}": json.dumps(fields) for name, fields in credentials.items()}
        self._credentials = Credentials(CredentialSource(environment=environment))

    def heartbeat(self) -> None:
        """Do nothing."""

    async def credential(self, auth: Json) -> Credential:
        return await self._credentials.resolve(auth)

    async def secret(self, name: str, entry_kind: str, config: dict[str, Json]) -> str:
        return await self._credentials.reference(name, entry_kind, config)

    def truncate(self, text: str, limit: int) -> str:
        return self._credentials.truncate(text, limit)

    def output(self, stream: OutputStream, text: str) -> None:
        """Do nothing."""


async def call(
    tool: Tool,
    config: dict[str, Json],
    *,
    given: dict[str, Json] | None = None,
    limit: float | None = None,
    credentials: Mapping[str, Mapping[str, Any]] | None = None,
) -> Outcome:
    """Call the tool with the first of the credentials. Raises ToolError if the call is refused, TimeoutError if it
    takes far too long.
    """
    credentials_by_name = credentials or {}
    request = Request(
        tool.spec.kind, config, given or {}, next(iter(credentials_by_name), None), limit, execution_id=EXECUTION
    )
    async with asyncio.timeout(SECONDS):
        return await tool.run(request, Context(credentials_by_name))
