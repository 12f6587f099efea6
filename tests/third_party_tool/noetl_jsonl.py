"""The tool kind jsonl: adds records to a file of JSON lines."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from noetl_activities.outcome import Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_activities.tool_models import read_fields
from noetl_activities.tool_spec import ToolSpec


class Fields(BaseModel):
    file: Path = Field(description="The file to write to.", examples=["orders.jsonl"])
    record: dict[str, Any] = Field(description="The record to add.")
    mode: Literal["append", "replace"] = Field("append", description="What happens to the records that are there.")


class Result(BaseModel):
    lines: int = Field(description="How many records the file has now.")


class JsonLines:
    spec = ToolSpec(
        "jsonl",
        "Adds a record to a file of JSON lines.",
        Fields,
        Result,
        guarantee=("exactly once", "a record has the key of its call, and is not added where that key is"),
        timeout=30,
        max_concurrent=1,
    )

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        fields = read_fields(Fields, request)
        lines = await asyncio.to_thread(add, fields, f"{request.key}/{request.repetition}")
        return Outcome("ok", Result(lines=lines).model_dump())


def add(fields: Fields, key: str) -> int:
    lines = fields.file.read_text().splitlines() if fields.mode == "append" and fields.file.exists() else []
    if all(json.loads(line)["key"] != key for line in lines):
        lines.append(json.dumps({"key": key, **fields.record}))
        draft = fields.file.with_suffix(".draft")
        draft.write_text("\n".join(lines) + "\n")
        draft.replace(fields.file)
    return len(lines)


TOOL = JsonLines()
