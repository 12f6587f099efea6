"""Checks the report of a run: its status, its failures, the counts and results of its loops."""

from __future__ import annotations

from collections import Counter
from typing import Any

from dev.simulate.regions import loop_ended_by, region_of
from dev.simulate.run_trace import Finding, MachineTrace, RunTrace
from dev.simulate.simulated_values import SimulatedValues
from dev.simulate.stops import decision_on_run, is_handled, is_stopped
from dev.simulate.tasks import RAISING, RAISING_AFTER_FAILURE
from noetl_compiler.graph import Route
from noetl_temporal.machine import failure_log
from noetl_temporal.machine.commands import CallTool, Cancel, Finish, RunChunk
from noetl_temporal.machine.domain import DomainEvent
from noetl_temporal.machine.facts import CancelRequested, ChunkFinished, ChunkReport, LimitReached, ToolFinished

__all__ = ["check_report"]

_STEP_ENDS = ("step.done", "step.failed", "step.cancelled")


def check_report(run_trace: RunTrace) -> None:
    """Raises Finding."""
    finish = run_trace.main.finish
    if finish is None:
        raise Finding("a run has no end", "its last command is no Finish")
    _check_status(run_trace, finish)
    _check_steps(run_trace, finish)
    _check_raising_routes(run_trace, finish)
    _check_items(run_trace, finish)
    for trace in run_trace.traces.values():
        if trace.name and trace.report is not None:
            _check_counts(trace, run_trace.store)
            _check_results(trace, run_trace.store)


def _check_status(run_trace: RunTrace, finish: Finish) -> None:
    unhandled_count = finish.failures.unhandled
    was_stopped = is_stopped(run_trace)
    if (finish.status == "completed") != (not unhandled_count and not was_stopped):
        detail = (
            f"{finish.status}, unhandled {unhandled_count}, the first {finish.failures.cause}, stopped {was_stopped}"
        )
        raise Finding("the status does not follow", detail)
    cancels = any(isinstance(turn.fact, CancelRequested) for turn in run_trace.main.turns)
    if finish.status == "cancelled" and not cancels:
        raise Finding("the status does not follow", "cancelled, and nobody asked for it")
    last_event = run_trace.main.events[-1]
    if not last_event.type.startswith("playbook.") or last_event.status != finish.status.upper():
        raise Finding("the last row has another status", f"{last_event.type} {last_event.status} of {finish.status}")


def _check_steps(run_trace: RunTrace, finish: Finish) -> None:
    """Check that a step run that failed, or was stopped without a request, is handled or fails the run."""
    ends: dict[str, DomainEvent] = {}
    for event in run_trace.main.events:
        if event.type in _STEP_ENDS:
            run = str(event.meta.get("step_run_id"))
            if run in ends:
                raise Finding("a run of a step ends twice", f"{run}: {ends[run].type}, {event.type}")
            ends[run] = event
    for run, event in ends.items():
        if event.type == "step.failed" and not is_handled(run_trace.main, run):
            if finish.status == "completed":
                raise Finding("a failure is forgiven", f"{run} failed, no arc led on, the run is completed")
            if not (_is_reported(finish, event.node, run) or _has_failed_iterations(run_trace, finish, event.node)):
                raise Finding("a failure is not reported", f"{run}: {event.error}")
        if event.type == "step.cancelled" and finish.status == "completed":
            raise Finding("a failure is forgiven", f"{run} was cancelled, the run is completed")
    _check_step_outcomes(run_trace, ends, finish)


def _is_reported(finish: Finish, step: str, run: str) -> bool:
    """Whether the report has a failure of this step run, or counts one that is not kept."""
    if any(failure.step == step and failure.run == run and not failure.handled for failure in finish.failures.detailed):
        return True
    is_counted = any(count.step == step and count.handled < count.count for count in finish.failures.counts)
    return is_counted and len(finish.failures.detailed) < finish.failures.total


def _has_failed_iterations(run_trace: RunTrace, finish: Finish, end: str) -> bool:
    """Whether the step is a loop over steps, or the end of one, and some step of the loop failed."""
    loop = loop_ended_by(run_trace.graph, end) or end
    inside = region_of(run_trace.graph, loop)
    return any(count.step in inside and count.handled < count.count for count in finish.failures.counts)


def _check_items(run_trace: RunTrace, finish: Finish) -> None:
    """Check that every failed item is counted, and every kept failure is one."""
    log, max_detailed = finish.failures, failure_log.MAX_DETAILED
    if len(log.detailed) != min(log.total, 2 * max_detailed) or len(log.first) != min(log.total, max_detailed):
        raise Finding("failures are lost", f"{len(log.first)} and {len(log.last)} are kept of {log.total}")
    if (log.cause is None) != (log.unhandled == 0):
        raise Finding("failures are lost", f"{log.unhandled} are unhandled, the first {log.cause}")
    failed_items: Counter[str] = Counter()
    for trace in run_trace.traces.values():
        if trace.name and trace.report is not None:
            failed_items[trace.chunk_input.step.name] += trace.report.stats["failed"]
    counts_by_step: Counter[str] = Counter()
    for entry in log.counts:
        counts_by_step[entry.step] += entry.count
    for loop, count in failed_items.items():
        if sum(counts_by_step[step] for step in region_of(run_trace.graph, loop)) < count:
            raise Finding("failures are lost", f"{dict(failed_items)} items failed, counted are {dict(counts_by_step)}")


def _check_step_outcomes(run_trace: RunTrace, ends: dict[str, DomainEvent], finish: Finish) -> None:
    """Check that the outcome of a step run is that of its calls and loops."""
    for run, cause in _fates_of_steps(run_trace).items():
        event = ends.get(run)
        if event is not None and event.type == "step.done" and not decision_on_run(run_trace.main, run):
            raise Finding("a failure is forgiven", f"{run} is done, though {cause}")
        if event is not None and finish.status == "completed" and not is_handled(run_trace.main, run):
            raise Finding("a failure is forgiven", f"the run is completed, though {run}: {cause}")


def _fates_of_steps(run_trace: RunTrace) -> dict[str, str]:
    """Step runs that cannot succeed, because of injected faults."""
    fates: dict[str, str] = {}
    runs = _runs_of_calls(run_trace.main)
    commands = [command for turn in run_trace.main.turns for command in turn.commands if isinstance(command, RunChunk)]
    loops = {command.chunk_id: command.input for command in commands}
    cancelled_ids = {
        command.id for turn in run_trace.main.turns for command in turn.commands if isinstance(command, Cancel)
    }
    for turn in run_trace.main.turns:
        fact: Any = turn.fact
        if isinstance(fact, ToolFinished) and fact.call_id in runs:
            call, run = runs[fact.call_id]
            if (
                not fact.cancelled
                and fact.report.outcome["status"] == "error"
                and call.rules is None
                and not call.is_guarded
            ):
                fates[run] = f"{fact.call_id} failed without a policy"
        elif isinstance(fact, ChunkFinished) and fact.chunk_id in loops:
            run, loop = loops[fact.chunk_id].step_run_id, loops[fact.chunk_id].step.loop
            if fact.report.status == "cancelled" and fact.chunk_id not in cancelled_ids:
                fates[run] = "its loop was cancelled"
            elif fact.report.stats.get("failed") and loop is not None and loop.failure != "best_effort":
                fates[run] = "items of its loop failed"
    return fates


def _runs_of_calls(trace: MachineTrace) -> dict[str, tuple[Any, str]]:
    """call id -> (call, run of a step)."""
    runs = {event.id: str(event.meta.get("step_run_id")) for event in trace.events if event.type == "task.started"}
    calls = [command.call for turn in trace.turns for command in turn.commands if isinstance(command, CallTool)]
    return {call.id: (call, runs.get(call.event_id, "")) for call in calls}


def _check_raising_routes(run_trace: RunTrace, finish: Finish) -> None:
    """A route whose condition raises is an error of its step, never "no match", in addition to earlier failures."""
    ends: dict[Any, DomainEvent] = {}
    for event in run_trace.main.events:
        run, step = event.meta.get("step_run_id"), run_trace.graph.steps.get(event.node)
        if event.type in _STEP_ENDS:
            ends[run] = event
        if event.type != "next.evaluated" or step is None:
            continue
        end = ends.get(run)
        if event.status == "FAILED":
            _check_failure_by_route(run_trace, event, end, finish)
        elif end is not None and _has_evaluated_error(step.route, end.type == "step.failed", event.meta["chosen"]):
            raise Finding("a condition that raises reads as no match", event.node)


def _has_evaluated_error(route: Route, is_failed: bool, chosen: list[str]) -> bool:
    """Whether an evaluated arc has a condition that raises: the first match ends an exclusive route."""
    for arc in route.arcs:
        if arc.on_status not in ("any", "error" if is_failed else "ok"):
            continue
        if arc.when is not None and arc.when.source in (RAISING, *([RAISING_AFTER_FAILURE] if is_failed else [])):
            return True
        if route.mode == "exclusive" and arc.target in chosen:
            return False
    return False


def _check_failure_by_route(run_trace: RunTrace, event: DomainEvent, end: DomainEvent | None, finish: Finish) -> None:
    """The end of the run is its failure, reported before; both failures are among those of the run."""
    if end is None or end.type != "step.failed" or "source" not in event.meta or event.meta["chosen"]:
        raise Finding("a way that raises fails no step", f"{event.node}: {end and end.type}, {event.meta}")
    run = event.meta["step_run_id"]
    if len(finish.failures.detailed) < finish.failures.total:
        return
    failures = [failure for failure in finish.failures.detailed if failure.run == run and not failure.handled]
    missing = {event.error, end.error}.difference(failure.message[:500] for failure in failures)
    inside = region_of(run_trace.graph, event.node)
    of_items = any(
        failure.iteration is not None and failure.step in inside
        for failure in finish.failures.detailed
        if not failure.handled
    )
    if end.error != event.error and of_items:
        missing.discard(end.error)  # a loop with failed items reports their failures instead
    if missing:
        raise Finding("a failure is not reported", f"{run}: {missing}, reported are {failures}")


def _check_counts(trace: MachineTrace, store: SimulatedValues) -> None:
    """Check that total = success + failed + skipped, and that a success is an item that succeeded."""
    report, stats, results = trace.report, trace.report.stats, _results_of(trace, store)
    items = (
        len(trace.chunk_input.items) - report.unstarted
        if trace.chunk_input.claims is None
        else _count_of_iterations(trace)
    )
    if stats["total"] != items or len(results) != items:
        raise Finding("counts of a loop are wrong", f"{stats} and {len(results)} results of {items} items")
    if stats["total"] != stats["success"] + stats["failed"] + stats["skipped"]:
        raise Finding("counts of a loop are wrong", f"{stats} do not add up")
    own_events = [
        emitted_event
        for emitted_event in trace.events
        if emitted_event.meta.get("loop_id") == trace.chunk_input.loop_id
    ]
    failing = sorted(event.meta["iteration"] for event in own_events if event.type == "loop.iteration.failed")
    detailed_items, max_detailed = [failure.iteration for failure in report.failures.detailed], failure_log.MAX_DETAILED
    if report.failures.total != len(failing) or detailed_items != [
        *failing[:max_detailed],
        *failing[max_detailed:][-max_detailed:],
    ]:
        raise Finding(
            "failures are lost",
            f"{report.failures.total} counted and {len(detailed_items)} in detail of {len(failing)}",
        )
    ends = Counter(event.type for event in own_events)
    if stats["success"] != ends["loop.iteration.done"] or stats["failed"] != ends["loop.iteration.failed"]:
        done, failed = ends["loop.iteration.done"], ends["loop.iteration.failed"]
        raise Finding("counts of a loop are wrong", f"{stats}, in the log {done} done and {failed} failed")


def _count_of_iterations(trace: MachineTrace) -> int:
    """Return the number of rows, or claims of rows, that became iterations of the chunk's own loop."""
    starts = (event for event in trace.events if event.type == "loop.iteration.started")
    return sum(event.meta["loop_id"] == trace.chunk_input.loop_id for event in starts)


def _results_of(trace: MachineTrace, store: SimulatedValues) -> list[Any]:
    report: ChunkReport = trace.report
    return report.results if report.stored is None else store.load(report.stored)


def _check_results(trace: MachineTrace, store: SimulatedValues) -> None:
    """Each item that ended well has its own result at its own index, unless the chunk was stopped while it stored
    them.
    """
    first_index, results = trace.chunk_input.first, _results_of(trace, store)
    facts = [turn.fact for turn in trace.turns]
    if not any(results) and any(isinstance(fact, CancelRequested | LimitReached) for fact in facts):
        return
    for event in (
        emitted_event
        for emitted_event in trace.events
        if emitted_event.meta.get("loop_id") == trace.chunk_input.loop_id
    ):
        result: Any = event.result
        if event.type == "loop.iteration.done" and "left_out" not in event.meta:
            stored = results[event.meta["iteration"] - first_index]
            if stored != result:
                raise Finding("a result is not its item's", f"{event.meta['iteration']}: {stored} for {result}")
