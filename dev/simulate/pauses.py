"""Checks that a paused run begins nothing, and has the same outcome as a run without pauses."""

from __future__ import annotations

from dev.simulate.breakers import has_breakers
from dev.simulate.run_summary import RunSummary, differences, summarize
from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.stops import BEGINS
from dev.simulate.world import World
from noetl_temporal.machine.commands import CallTool, Command, Emit, PauseChildren, RunChunk, StartTimer
from noetl_temporal.machine.facts import CancelRequested, PauseRequested, TimerFired, UnpauseRequested

__all__ = ["check_pauses", "check_same_without_pauses"]

UNCOMPARED = ("playbook.paused", "playbook.resumed", "signal.received")
"""Types of rows: a run that is paused lasts longer, so that more signals come before its end."""

COMPARED = 6
"""The interval of seeds at which a run without faults is compared with one that is paused."""

ORDERS = 4
"""The random orders in which a run without faults must have one outcome; else its playbook is not compared."""


def check_pauses(run_trace: RunTrace) -> None:
    """Raises Finding."""
    for trace in run_trace.traces.values():
        if trace.name and trace.chunk_input.frame is not None:
            continue  # a frame is an activity, which Temporal pauses
        _check_nothing_begins(trace)
        _check_pause_is_logged(trace)


def _check_nothing_begins(trace: MachineTrace) -> None:
    is_paused = False
    for number, turn in enumerate(trace.turns):
        if is_paused and isinstance(turn.fact, TimerFired) and turn.fact.timer_id.endswith(":timeout"):
            raise Finding("a timeout counts while the run is paused", f"{turn.fact.timer_id} in turn {number}")
        for command in turn.commands:
            if isinstance(command, PauseChildren):
                is_paused = command.is_paused
            elif is_paused and (work := _started_work(command)):
                raise Finding("something begins while the run is paused", f"{work}, in turn {number}")


def _started_work(command: Command) -> str:
    match command:
        case CallTool(call):
            return f"call {call.id[:80]}"
        case RunChunk(chunk_id):
            return f"chunk {chunk_id[:80]}"
        case StartTimer(timer_id) if timer_id.endswith(":timeout"):
            return f"timer {timer_id[:80]}"
        case Emit(event) if event.type in BEGINS:
            return f"{event.type} {event.node[:80]}"
        case _:
            return ""


def _check_pause_is_logged(trace: MachineTrace) -> None:
    """Check that a pause ends with a resume or a cancel, and that the log of the playbook has both ends once."""
    is_paused = False
    for turn in trace.turns:
        changes = [command.is_paused for command in turn.commands if isinstance(command, PauseChildren)]
        for change in changes:
            if change == is_paused:
                raise Finding("a pause is sent twice", str(turn.fact)[:200])
            expected_facts = (PauseRequested,) if change else (UnpauseRequested, CancelRequested)
            if not isinstance(turn.fact, expected_facts):
                raise Finding("a pause changes by itself", str(turn.fact)[:200])
            is_paused = change
        reported = [
            command.event.type
            for command in turn.commands
            if isinstance(command, Emit) and command.event.type in ("playbook.paused", "playbook.resumed")
        ]
        if reported != [] if trace.name else len(reported) != len(changes):
            raise Finding("a pause is sent wrongly", f"{reported} for {changes}")


def check_same_without_pauses(run_trace: RunTrace) -> None:
    """Compare a run with one that is paused at random times, if neither depends on time. Raises Finding."""
    if run_trace.seed % COMPARED or has_breakers(run_trace.graph):
        return
    baseline = _summary(run_trace, 0, with_pauses=False)
    if baseline is None or any(_summary(run_trace, order, with_pauses=False) != baseline for order in range(1, ORDERS)):
        return
    for order in range(ORDERS):
        summary = _summary(run_trace, order, with_pauses=True)
        problems = (
            ["it does not end"] if summary is None else list(differences(baseline, summary, ("unpaused", "paused")))
        )
        if problems:
            raise Finding("a run that was paused comes to something else", problems[0][:1500])


def _summary(run_trace: RunTrace, order: int, *, with_pauses: bool) -> RunSummary | None:
    """Return None for a run that depends on time or does not end."""
    paused_run = RunTrace(run_trace.seed, run_trace.text, run_trace.graph)
    try:
        World(paused_run, order, with_pauses=with_pauses).run()
    except Finding:
        return None
    if paused_run.row_changes:
        return None  # leases are a matter of time
    commands = [command for trace in paused_run.traces.values() for turn in trace.turns for command in turn.commands]
    if any(
        isinstance(command, StartTimer) and command.timer_id.endswith((":timeout", ":hold", ":timer"))
        for command in commands
    ):
        return None
    if any(isinstance(command, CallTool) and command.call.timeout is not None for command in commands):
        return None
    summary = summarize(paused_run)
    rows = {row: count for row, count in summary.rows.items() if not row.startswith(UNCOMPARED)}
    return summary._replace(rows=type(summary.rows)(rows))
