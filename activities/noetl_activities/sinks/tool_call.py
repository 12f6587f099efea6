"""Sinks that call a tool with the data to store: http sends it, python runs code on it.

They have no transaction, so a repeated attempt calls the tool again (semantics.md 26). All attempts pass the same key:
http sends it as a header, and python code reads it as ``idempotency_key``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import cast

from noetl_activities.errors import SinkError
from noetl_activities.http.request import idempotency_key
from noetl_activities.http.tool import TOOL as HTTP
from noetl_activities.python.tool import TOOL as PYTHON
from noetl_activities.sinks.data import sink_content, sink_rows
from noetl_activities.sinks.ledger import Entry, StoreResult
from noetl_activities.sinks.requests import SinkRequest
from noetl_activities.tool import Json, Request, Tool, ToolContext
from noetl_compiler.language.sinks import DEFAULT_METHOD, IDEMPOTENCY_HEADER

__all__ = ["TOOLS", "call_tool"]

TOOLS: Mapping[str, Tool] = MappingProxyType({"http": HTTP, "python": PYTHON})


async def call_tool(sink: SinkRequest, context: ToolContext) -> StoreResult:
    """Call the tool with the data of the sink. Raises SinkError if the outcome is an error, and ToolError."""
    to_content = sink_rows if sink.config.get("mapping") else sink_content
    content = to_content(sink.config, sink.result)
    config = {name: value for name, value in sink.config.items() if name not in ("data", "mapping")}
    to_request = _http_request if sink.kind == "http" else _python_request
    outcome = await TOOLS[sink.kind].run(to_request(config, content, sink.entry, sink.auth), context)
    if outcome.status == "error":
        raise SinkError(outcome)
    return StoreResult()


def _http_request(config: dict[str, Json], content: Json, entry: Entry, auth: Json) -> Request:
    fields = {"method": DEFAULT_METHOD, **config, "json": content}
    return Request(
        "http", fields, auth=auth, key=entry.key, repetition=entry.repetition, idempotency_header=IDEMPOTENCY_HEADER
    )


def _python_request(config: dict[str, Json], content: Json, entry: Entry, auth: Json) -> Request:
    """Return the call of the code. It reads the content as ``data``; if that is a mapping, also its keys as names."""
    fields = cast("dict[str, Json]", content) if isinstance(content, dict) else {}
    input_: dict[str, Json] = {
        "data": content,
        "idempotency_key": idempotency_key(entry.key, entry.repetition),
        **fields,
    }
    execution = entry.key.partition("/")[0]
    return Request("python", config, input_, auth, key=entry.key, repetition=entry.repetition, execution_id=execution)
