"""Reads the delays of a run on Temporal from its histories: before pages and jumps, and of timed-out waits."""

from __future__ import annotations

import re
from collections.abc import Iterator

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client

from noetl_temporal.inspection.replay import histories_of

__all__ = ["delays_of_timers"]

DELAY_SUMMARY = re.compile(r"(?!.* times out in )\S+ .+ in \S+ s")
"""The summary of a timer before a page, a retry or a jump."""

WAIT_SUMMARY = re.compile(r".+ (waits until its time|times out)")
"""The summary of a timer of a task that waits."""


async def delays_of_timers(client: Client, workflow_id: str) -> list[tuple[float, float]]:
    """Return (time, seconds) of each delay: the time of its end or, before a page or jump, of its start, in
    milliseconds since the epoch.
    """
    timers: list[tuple[float, float]] = []
    async for history in histories_of(client, workflow_id):
        summaries: dict[int, str] = {}
        for event in history.events:
            if event.user_metadata.summary.data:
                [text] = await client.data_converter.decode([event.user_metadata.summary], [str])
                summaries[event.event_id] = text
        timers += _delays(list(history.events), summaries)
    return timers


def _delays(events: list[HistoryEvent], summaries: dict[int, str]) -> Iterator[tuple[float, float]]:
    events_by_id = {event.event_id: event for event in events}
    for event in events:
        if event.HasField("timer_started_event_attributes"):
            if DELAY_SUMMARY.fullmatch(summaries.get(event.event_id, "")):
                yield event.event_time.ToMilliseconds(), _seconds(event)
        elif event.HasField("timer_fired_event_attributes"):
            started_id = event.timer_fired_event_attributes.started_event_id
            if WAIT_SUMMARY.fullmatch(summaries.get(started_id, "")):
                yield event.event_time.ToMilliseconds(), _seconds(events_by_id[started_id])


def _seconds(event: HistoryEvent) -> float:
    return event.timer_started_event_attributes.start_to_fire_timeout.ToMilliseconds() / 1000
