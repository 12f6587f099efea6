"""Checks the ids of the log: unique in the execution, rising in each machine, larger than those of their parents.

Each start in the log has one end. Keys of calls have the right number of parts, whatever characters the names contain.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from dev.simulate.regions import depth_of
from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.statements import is_statement
from noetl_temporal.event_ids import DERIVED, IdClock, millisecond_of
from noetl_temporal.machine.commands import CallTool, Emit
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import ToolFinished

__all__ = ["check_ids"]


def check_ids(run_trace: RunTrace) -> None:
    """Raises Finding."""
    _check_ids_rise(run_trace)
    events = sorted(
        (event for trace in run_trace.traces.values() for event in trace.events), key=lambda event: event.id
    )
    ids: set[int] = set()
    for event in events:
        if event.id in ids:
            raise Finding("two events have one id", f"{event.id}, {event.type} {event.node[:60]}")
        if event.parent is not None and event.parent not in ids:
            raise Finding("an event is older than its parent", f"{event.type} {event.node[:60]}")
        ids.add(event.id)
    _check_each_start_ends_once(run_trace, events)
    _check_derived_rows(run_trace)
    _check_parts_of_keys(run_trace)


def _check_derived_rows(run_trace: RunTrace) -> None:
    """Check the ids of rows that the mirror derives from calls: at most three an attempt, two a sink (event_ids.py)."""
    ids = {event.id for trace in run_trace.traces.values() for event in trace.events}
    for trace in run_trace.traces.values():
        slot, after = (trace.chunk_input.slot, trace.chunk_input.after) if trace.name else (0, 0)
        clock, parents = IdClock(after, DERIVED), _parents(trace)
        for turn in trace.turns:
            fact: Any = turn.fact
            if isinstance(fact, ToolFinished):
                last_id = _add_derived_ids(fact, parents[fact.call_id], clock, slot, ids)
                later = [command.event for command in turn.commands if isinstance(command, Emit)]
                if any(event.id < last_id for event in later):
                    raise Finding("an event stands before its call's rows", f"{later[0].type} of {fact.call_id}")


def _parents(trace: MachineTrace) -> dict[str, int]:
    calls = (command.call for turn in trace.turns for command in turn.commands if isinstance(command, CallTool))
    return {call.id: call.event_id for call in calls}


def _add_derived_ids(fact: ToolFinished, parent: int, clock: IdClock, slot: int, ids: set[int]) -> int:
    """Return the last of their ids."""
    last_id = parent
    for attempt in fact.report.attempts:
        for _ in range(3 + 2 * len(attempt.sinks)):
            last_id = clock.next(max(fact.at, millisecond_of(last_id)), slot, DERIVED)
            if last_id in ids:
                raise Finding("two events have one id", f"{last_id}, a row derived from {fact.call_id}")
            ids.add(last_id)
    return last_id


def _check_parts_of_keys(run_trace: RunTrace) -> None:
    """Names add no parts to a key: execution/run/task/call, and execution/step/run/item/task/call in a loop. Each loop
    over steps around it adds step/run/item, and a cursor's own call the first row of its chunk. An id that is cut has
    fewer.
    """
    graph = run_trace.graph
    max_slashes = {
        name: 3 * depth_of(graph, name) + (3 if step.loop is None else 5) for name, step in graph.steps.items()
    }
    for trace in run_trace.traces.values():
        calls = [command.call for turn in trace.turns for command in turn.commands if isinstance(command, CallTool)]
        unescaped = next(
            (call.key for call in calls if call.key.count("/") > max_slashes[call.step] + is_statement(call)), None
        )
        if unescaped is not None:
            raise Finding("a name is not escaped", unescaped[:120])


def _check_ids_rise(run_trace: RunTrace) -> None:
    for trace in run_trace.traces.values():
        ids = [event.id for event in trace.events]
        if any(earlier >= other for earlier, other in itertools.pairwise(ids)):
            raise Finding("ids do not rise", f"in {trace.name or 'the playbook'}")


def _check_each_start_ends_once(run_trace: RunTrace, events: list[DomainEvent]) -> None:
    starts = {event.id: event for event in events if event.status == "STARTED"}
    ends = Counter(event.ends for event in events if event.ends is not None)
    for event in events:
        if event.ends is not None and event.ends not in starts:
            raise Finding("something ends that never began", f"{event.type} {event.node[:60]}")
        if event.ends is not None and event.ends >= event.id:
            raise Finding("something ends before it began", f"{event.type} {event.node[:60]}")
    unended: set[int] = set()
    for trace in run_trace.traces.values():
        if trace.terminated:
            unended |= {event.id for event in trace.events}
    for id_, event in starts.items():
        if ends[id_] > 1 or (ends[id_] == 0 and id_ not in unended):
            raise Finding(f"what began ends {ends[id_]} times", f"{event.type} {event.node[:60]}")
