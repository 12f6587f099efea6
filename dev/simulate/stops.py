"""Checks what a machine begins after a stop (semantics.md 6a, 19a)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from noetl_temporal.machine.commands import CallTool, Cancel, Command, Emit, PauseChildren, RunChunk, StartTimer
from noetl_temporal.machine.facts import (
    CancelRequested,
    Continued,
    IdleRequested,
    LimitReached,
    Restored,
    TimerFired,
    ToolFinished,
)

__all__ = ["BEGINS", "check_stops", "decision_on_run", "is_handled", "is_stopped"]

CLEANUP_MS = 60_000
PLAYBOOK_TIMER = "playbook:timeout"
SETTLEMENTS = ("ack", "release")
"""Statements of a cursor that a stop itself begins, with their delays."""

BEGINS = ("step.started", "task.started", "loop.started", "loop.iteration.started")


def check_stops(run_trace: RunTrace) -> None:
    """Raises Finding."""
    for trace in run_trace.traces.values():
        _check_holding(trace)
        final = "" if trace.name else run_trace.graph.final
        first_stop = next(_loop_stops(trace) if trace.name else _playbook_stops(run_trace, trace), None)
        _check_nothing_begins(trace, first_stop, final)
        _check_delays_are_dropped(trace, first_stop, final)
    _check_step_timeouts(run_trace.main)
    _check_end_step(run_trace)


def is_stopped(run_trace: RunTrace) -> bool:
    """Whether the playbook's machine was asked to stop, or stopped itself."""
    return any(True for _ in _playbook_stops(run_trace, run_trace.main))


def _playbook_stops(run_trace: RunTrace, trace: MachineTrace) -> Iterator[tuple[int, int, str]]:
    """Yield (turn, command from which on nothing may begin, why)."""
    for number, turn in enumerate(trace.turns):
        fact: Any = turn.fact
        if isinstance(fact, CancelRequested):
            yield number, 0, "a cancel"
        elif isinstance(fact, TimerFired) and fact.timer_id == PLAYBOOK_TIMER:
            yield number, 0, "the playbook's timeout"
        elif isinstance(fact, LimitReached):
            yield number, 0, "a limit"
        for index, command in enumerate(turn.commands):
            if isinstance(command, Emit) and _fails_fast(run_trace, trace, command):
                yield number, index, "fail_fast"


def _fails_fast(run_trace: RunTrace, trace: MachineTrace, command: Emit) -> bool:
    event = command.event
    if event.type != "step.failed" or event.node == run_trace.graph.final:
        return False
    mode = run_trace.graph.steps[event.node].branch_failure or run_trace.graph.branch_failure
    return mode == "fail_fast" and not is_handled(trace, event.meta.get("step_run_id"))


def is_handled(trace: MachineTrace, run: Any) -> bool:
    """Whether an arc was followed after this step run, or a person decided about its failure."""
    if decision_on_run(trace, run):
        return True
    routings = (
        event for event in trace.events if event.type == "next.evaluated" and event.meta.get("step_run_id") == run
    )
    return any(event.meta.get("chosen") for event in routings)


def decision_on_run(trace: MachineTrace, run: Any) -> str:
    """Return ``retry`` or ``skip`` if a person decided so about this step run, else the empty string."""
    ends = (event for event in trace.events if event.type == "step.released" and event.meta.get("step_run_id") == run)
    return next((end.meta["action"] for end in ends if end.meta["action"] in ("retry", "skip")), "")


def _loop_stops(trace: MachineTrace) -> Iterator[tuple[int, int, str]]:
    loop = trace.chunk_input.step.loop
    for number, turn in enumerate(trace.turns):
        if isinstance(turn.fact, CancelRequested):
            yield number, 0, "a cancel"
        elif isinstance(turn.fact, LimitReached):
            yield number, 0, "a limit"
        for index, command in enumerate(turn.commands):
            if not isinstance(command, Emit) or command.event.type != "loop.iteration.failed":
                continue
            is_own = command.event.meta["loop_id"] == trace.chunk_input.loop_id  # not that of a loop inside
            if is_own and loop is not None and loop.on_error == "fail_fast":
                yield number, index, "fail_fast of the loop"


def _check_nothing_begins(trace: MachineTrace, stop: tuple[int, int, str] | None, final: str) -> None:
    """Check that nothing begins, except the release of claimed rows, each as an iteration that ends at once."""
    if stop is None:
        return
    number, start, reason = stop
    settles = bool(trace.name) and any(
        step.loop and step.loop.cursor for step in (trace.chunk_input.step, *trace.chunk_input.steps.values())
    )
    for turn_number, turn in enumerate(trace.turns[number:], number):
        for command in turn.commands[start:] if turn_number == number else turn.commands:
            work = _started_work(command, final)
            if work and not (settles and _settles(command)):
                raise Finding(
                    f"something begins after {reason}", f"{work}, in turn {turn_number} after the stop in {number}"
                )


def _check_delays_are_dropped(trace: MachineTrace, stop: tuple[int, int, str] | None, final: str) -> None:
    """Check that a stop drops all delays in progress."""
    if stop is None:
        return
    running: set[str] = set()
    for turn in trace.turns[: stop[0] + 1]:
        fact: Any = turn.fact
        if isinstance(fact, TimerFired):
            running.discard(fact.timer_id)
        for command in turn.commands:
            if isinstance(command, StartTimer) and _started_work(command, final) and not _settles(command):
                running.add(command.timer_id)
            elif isinstance(command, Cancel):
                running.discard(command.id)
    if running:
        raise Finding(f"a delay goes on after {stop[2]}", sorted(running)[0])


def _settles(command: Command) -> bool:
    """Whether the command settles a claimed row."""
    match command:
        case CallTool(call):
            return call.task in SETTLEMENTS
        case StartTimer(timer_id):
            return any(f":{settlement}:" in timer_id for settlement in SETTLEMENTS)
        case Emit(event):
            return event.type == "loop.iteration.started" or event.node in SETTLEMENTS
        case _:
            return False


def _started_work(command: Command, final: str) -> str:
    """Return what a command begins; empty for nothing and for the cleanup."""
    match command:
        case CallTool(call) if call.step != final or not final:
            return f"call {call.id[:80]}"
        case RunChunk(chunk_id, given) if given.step.name != final:
            return f"chunk {chunk_id[:80]}"
        case StartTimer(timer_id) if not timer_id.endswith(":timeout") and not (final and timer_id.startswith(final)):
            return f"timer {timer_id[:80]}"
        case Emit(event) if event.type in BEGINS and not (final and _is_of_end(event.meta, event.node, final)):
            return f"{event.type} {event.node[:80]}"
        case _:
            return ""


def _is_of_end(meta: dict[str, Any], node: str, final: str) -> bool:
    return node == final or str(meta.get("step_run_id", "")).rpartition("#")[0] == final


def _check_step_timeouts(trace: MachineTrace) -> None:
    """Check that a step begins no further task after its timeout."""
    timed_out_runs: set[str] = set()
    for number, turn in enumerate(trace.turns):
        fact: Any = turn.fact
        if isinstance(fact, TimerFired) and fact.timer_id.endswith(":timeout"):
            timed_out_runs.add(fact.timer_id.removesuffix(":timeout"))
        for command in turn.commands:
            if not isinstance(command, Emit) or command.event.type not in ("task.started", "loop.started"):
                continue
            if str(command.event.meta.get("step_run_id")) in timed_out_runs:
                raise Finding(
                    "something begins after a step's timeout", f"in turn {number}, of {sorted(timed_out_runs)[:3]}"
                )


def _check_holding(trace: MachineTrace) -> None:
    """Check that no call and no loop begins between a request to hold and the end of the hold."""
    is_holding = False
    for number, turn in enumerate(trace.turns):
        if isinstance(turn.fact, IdleRequested):
            is_holding = True
        elif isinstance(turn.fact, Continued | Restored):
            is_holding = False
        starts = [command for command in turn.commands if isinstance(command, CallTool | RunChunk)]
        if is_holding and starts:
            raise Finding("something begins while the machine holds", f"in turn {number}: {str(starts[0])[:200]}")


def _check_end_step(run_trace: RunTrace) -> None:
    """Check that ``end`` runs once, also after a stop, with a limited cleanup, which a second cancel skips."""
    trace, final = run_trace.main, run_trace.graph.final
    starts = [event for event in trace.events if event.type == "step.started" and event.node == final]
    if len(starts) - sum(decision_on_run(trace, event.meta["step_run_id"]) == "retry" for event in starts) > 1:
        raise Finding("the final step runs more than once", f"{len(starts)} times")
    skipping_turn = _turn_of_second_cancel(trace)
    has_started = any(event.type == "workflow.started" for event in trace.events)
    if not starts and has_started and skipping_turn is None:
        raise Finding("a run does not meet its final step", "though nobody asked to skip it")
    for turn in trace.turns[len(trace.turns) if skipping_turn is None else skipping_turn :]:
        for command in turn.commands:
            if _started_work(command, ""):
                raise Finding("something begins after a second cancel", _started_work(command, ""))
    if starts and run_trace.graph.steps[final].timeout is None:
        _check_cleanup_is_bounded(run_trace, trace, starts[0].at)


def _turn_of_second_cancel(trace: MachineTrace) -> int | None:
    """Return the turn of the second request to cancel."""
    cancels = [number for number, turn in enumerate(trace.turns) if _is_cancel(turn.fact)]
    return cancels[1] if len(cancels) > 1 else None


def _is_cancel(fact: object) -> bool:
    return isinstance(fact, CancelRequested)


def _paused_ms(trace: MachineTrace) -> int:
    """Return how long the run was paused: this time does not count."""
    total, since = 0, 0
    for turn in trace.turns:
        for command in turn.commands:
            if isinstance(command, PauseChildren):
                total += 0 if command.is_paused else turn.fact.at - since
                since = turn.fact.at
    return total


def _check_cleanup_is_bounded(run_trace: RunTrace, trace: MachineTrace, started_at: int) -> None:
    stop = next(_playbook_stops(run_trace, trace), None)
    if stop is None:
        return
    deadline = max(trace.turns[stop[0]].fact.at, started_at) + CLEANUP_MS + _paused_ms(trace)
    started_calls: dict[str, int] = {}
    cancelled_at: dict[str, int] = {}
    for turn in trace.turns:
        for command in turn.commands:
            if isinstance(command, CallTool) and command.call.step == run_trace.graph.final:
                started_calls[command.call.id] = turn.fact.at
            elif isinstance(command, Cancel):
                cancelled_at.setdefault(command.id, turn.fact.at)
        fact: Any = turn.fact
        if isinstance(fact, ToolFinished) and fact.call_id in started_calls:
            del started_calls[fact.call_id]
            if fact.at > deadline + 1000 and cancelled_at.get(fact.call_id, deadline + 1001) > deadline + 1000:
                raise Finding("the cleanup has no bound", f"{fact.call_id} ends {(fact.at - deadline) // 1000} s late")
