"""Ids of the log: unique in the execution, rising along each machine; what began ends once; parents are older."""

from __future__ import annotations

from collections import Counter

from dev.simulate.story import Finding, Story
from noetl_temporal.machine.domain import DomainEvent

__all__ = ["check_ids"]


def check_ids(story: Story) -> None:
    """Raises Finding."""
    _rising(story)
    events = sorted((event for tale in story.tales.values() for event in tale.events), key=lambda event: event.id)
    known: set[int] = set()
    for event in events:
        if event.id in known:
            raise Finding("two events have one id", f"{event.id}, {event.type} {event.node[:60]}")
        if event.parent is not None and event.parent not in known:
            raise Finding("an event is older than its parent", f"{event.type} {event.node[:60]}")
        known.add(event.id)
    _ended_once(story, events)


def _rising(story: Story) -> None:
    for tale in story.tales.values():
        ids = [event.id for event in tale.events]
        if any(one >= other for one, other in zip(ids, ids[1:], strict=False)):
            raise Finding("ids do not rise", f"in {tale.name or 'the playbook'}")


def _ended_once(story: Story, events: list[DomainEvent]) -> None:
    began = {event.id: event for event in events if event.status == "STARTED"}
    ends = Counter(event.ends for event in events if event.ends is not None)
    for event in events:
        if event.ends is not None and event.ends not in began:
            raise Finding("something ends that never began", f"{event.type} {event.node[:60]}")
        if event.ends is not None and event.ends >= event.id:
            raise Finding("something ends before it began", f"{event.type} {event.node[:60]}")
    open_: set[int] = set()
    for tale in story.tales.values():
        if tale.terminated:
            open_ |= {event.id for event in tale.events}
    for id_, event in began.items():
        if ends[id_] > 1 or (ends[id_] == 0 and id_ not in open_):
            raise Finding(f"what began ends {ends[id_]} times", f"{event.type} {event.node[:60]}")
