"""The items that heartbeats of frames reported as ended before a kill, and the number of their calls by then."""

from __future__ import annotations

import urllib.parse
from collections import Counter

import msgspec

from dev.killing.stack import Api, Stack
from noetl_temporal.client import NoetlClient, RunHandle
from noetl_temporal.frames.segments import read_segment
from noetl_temporal.messages.frame import FrameDetails
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore

__all__ = ["HeartbeatItems", "calls_by_item"]

ENDS = ("loop.iteration.done", "loop.iteration.failed")


class HeartbeatItems:
    """The ended items of one run. ``path`` is that of its calls. ``calls`` counts the calls of an item before that."""

    def __init__(self, api: Api, path: str) -> None:
        self.calls: dict[int, int] = {}
        self._api, self._path = api, path

    async def read_heartbeats(self, stack: Stack, run: RunHandle) -> None:
        """Read the current heartbeats; if the server or the payload store is unavailable, do nothing."""
        try:
            items = await _items(stack.addresses.temporal, stack.addresses.postgres, run.workflow_id)
        except Exception as error:
            print(f"heartbeats not read: {type(error).__name__}: {error}"[:150], flush=True)
            return
        calls_of_item = calls_by_item(self._api.calls(self._path), run.execution_id)
        for item in items:
            self.calls.setdefault(item, calls_of_item[item])


async def _items(address: str, dsn: str, workflow_id: str) -> set[int]:
    client = await NoetlClient.connect(address, dsn=dsn)
    values, items = ValueStore(data_converter(dsn)), set[int]()
    description = await client.temporal.get_workflow_handle(workflow_id).describe()
    for pending in description.raw_description.pending_activities:
        for payload in pending.heartbeat_details.payloads:
            key = msgspec.json.decode(payload.data, type=FrameDetails).head
            while key is not None:
                segment = await read_segment(values, key)
                entries = [msgspec.json.decode(entry) for entry in segment.entries]
                events = [entry["event"] for entry in entries if "event" in entry]
                items |= {event["meta"]["iteration"] for event in events if event["type"] in ENDS}
                key = segment.previous_key
    return items


def calls_by_item(calls: dict[str, int], execution_id: int) -> Counter[int]:
    """Item -> calls that reached the service; their label is ``<run>-<item>``. ``calls``: query string -> count."""
    counts: Counter[int] = Counter()
    for query, count in calls.items():
        [label] = urllib.parse.parse_qs(query).get("label", [""])
        run, _, item = label.partition("-")
        if run == str(execution_id):
            counts[int(item)] += count
    return counts
