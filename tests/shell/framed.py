"""A frame as an activity that a test runs, interrupts and loses by itself, with the heartbeat it leaves."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from temporalio.activity import ActivityCancellationDetails
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_compiler import compile_or_raise
from noetl_compiler.graph import Graph
from noetl_temporal.frames.activity import frame_activity
from noetl_temporal.frames.segments import Segment, read_segment
from noetl_temporal.limits import STORED_BYTES
from noetl_temporal.machine.commands import ChunkInput, RunChunk
from noetl_temporal.machine.facts import Started
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.messages.frame import FrameDetails, FrameEnd, FrameInput
from noetl_temporal.messages.segment_chain import SegmentChain
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: framed}\nworkflow:\n"


def graph_of(step: str) -> Graph:
    return compile_or_raise(HEAD + step, "framed.yaml")


def chunk_of(
    items: int,
    tool: str = "{kind: noop, input: {n: '{{ item }}'}}",
    spec: str = "",
    at_once: int = 16,
    frame: str = "max_rows: 9999",
) -> str:
    """A loop over ``range(items)`` that is one frame."""
    return (
        f'  - step: start\n    loop: {{in: "{{{{ range({items}) | list }}}}", iterator: item,'
        f" spec: {{mode: parallel, max_in_flight: {at_once}{spec}, frame: {{{frame}}}}}}}\n    tool: {tool}\n"
    )


def input_of(step: str) -> ChunkInput:
    """What the playbook's machine sends to the only frame of its first step."""
    machine = PlaybookMachine(graph_of(step), execution_id=1, limit=STORED_BYTES)
    commands = machine.feed(Started(1_800_000_000_000))
    [command] = [command for command in commands if isinstance(command, RunChunk)]
    assert len(command.input.items) == command.input.total
    return command.input


class Frame:
    """One frame over several attempts. ``details`` are those of the last heartbeat."""

    def __init__(self, chunk_input: ChunkInput, dsn: str, answer: Callable[[Request, ToolContext], Any]) -> None:
        self.tool = FakeTool("noop", answer)
        self.values = ValueStore(data_converter(dsn))
        self.details = FrameDetails()
        self.beats: list[FrameDetails] = []
        self._chunk_input = FrameInput(chunk_input)
        self._attempt = 0
        self._environment = ActivityEnvironment()

    def start(self) -> asyncio.Task[FrameEnd]:
        """The next attempt, with the details of the last heartbeat."""
        self._attempt += 1
        environment = self._environment = ActivityEnvironment()
        details = [msgspec.to_builtins(self.details)] if self.beats else []
        environment.info = dataclasses.replace(environment.info, attempt=self._attempt, heartbeat_details=details)
        environment.on_heartbeat = self._beat
        run = frame_activity({"noop": self.tool}, CredentialSource(environment={}), self.values)
        return asyncio.ensure_future(environment.run(run, self._chunk_input))

    def _beat(self, details: FrameDetails) -> None:
        self.details = details
        self.beats.append(details)

    def interrupt(self, why: str) -> None:
        self._environment.cancel(ActivityCancellationDetails(**{why: True}))

    def stop_worker(self) -> None:
        """Tell the worker to stop; its grace has not ended."""
        self._environment.worker_shutdown()

    async def lose(self, running: asyncio.Task[FrameEnd]) -> None:
        """The worker dies: nothing that the attempt would do on its way out is done."""
        self._environment.on_heartbeat = lambda *_: None
        running.cancel()
        await asyncio.wait([running])

    @property
    def called_items(self) -> list[Any]:
        """The ``n`` of each call in order."""
        return [request.input["n"] for request in self.tool.requests]

    async def segments(self, end: FrameEnd) -> Sequence[Segment]:
        """All segments, the first one first."""
        segments: list[Segment] = []
        key: str | None = end.last_segment
        chain = SegmentChain()
        while key is not None:
            segments.insert(0, await read_segment(self.values, key, chain))
            key = segments[0].previous_key
        return segments

    async def entries(self, end: FrameEnd) -> list[dict[str, Any]]:
        return [msgspec.json.decode(entry) for segment in await self.segments(end) for entry in segment.entries]
