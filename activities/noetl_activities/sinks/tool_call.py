"""Sinks that call a tool with the data to store: http sends it, python runs code on it.

They have no transaction, so a repeated attempt calls them again (semantics.md 26). The key of the sink, which is the
same in all attempts, is passed on: by http as a header, to python as the name ``idempotency_key``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from noetl_activities.errors import SinkError
from noetl_activities.http import TOOL as HTTP
from noetl_activities.http_request import key_digest
from noetl_activities.python import TOOL as PYTHON
from noetl_activities.sinks.data import content_of, rows_of
from noetl_activities.sinks.ledger import Entry, Stored
from noetl_activities.tool import Json, Request, Tool, ToolContext
from noetl_compiler.language.sinks import KEY_HEADER, METHOD

__all__ = ["TOOLS", "call_tool"]

TOOLS: Mapping[str, Tool] = MappingProxyType({"http": HTTP, "python": PYTHON})


async def call_tool(
    kind: str, config: dict[str, Json], entry: Entry, result: Json, auth: Json, context: ToolContext
) -> Stored:
    """Call the tool with ``result``, or with the data in ``config``. Raises SinkError if its outcome is an error, and
    ToolError."""
    content = rows_of(config, result) if config.get("mapping") else content_of(config, result)
    own: dict[str, Json] = {name: value for name, value in config.items() if name not in ("data", "mapping")}
    request = _sent(own, content, entry, auth) if kind == "http" else _run(own, content, entry, auth)
    outcome = await TOOLS[kind].run(request, context)
    if outcome.status == "error":
        raise SinkError(outcome)
    return Stored()


def _sent(config: dict[str, Json], content: Json, entry: Entry, auth: Json) -> Request:
    sent = {"method": METHOD, **config, "json": content}
    return Request("http", sent, auth=auth, key=entry.key, n=entry.n, idempotency_key=KEY_HEADER)


def _run(config: dict[str, Json], content: Json, entry: Entry, auth: Json) -> Request:
    """Run the code. It sees the content as ``data`` and, if that is a mapping, its keys as names."""
    names = cast("dict[str, Json]", content) if isinstance(content, dict) else {}
    bound: dict[str, Json] = {"data": content, "idempotency_key": key_digest(entry.key, entry.n), **names}
    execution = entry.key.partition("/")[0]
    return Request("python", config, bound, auth, key=entry.key, n=entry.n, execution_id=execution)
