"""Safeguards of the machine, disabled one at a time: the simulation must detect each of these mutations.

If disabling a safeguard produces no finding, the simulation does not test it.
"""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import msgspec
from msgspec.structs import replace

from dev.simulate.breaker_mutations import BREAKER_MUTATIONS
from dev.simulate.claim_mutations import CLAIM_MUTATIONS
from dev.simulate.hold_mutations import HOLD_MUTATIONS
from dev.simulate.mutation import Mutation, replaced_by, wrapped_by
from noetl_compiler import templates
from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.frames import activity, segments
from noetl_temporal.frames.segment_writer import SegmentWriter
from noetl_temporal.machine import looping, protocol, quantities
from noetl_temporal.machine.budget import Budget, ResultSizes
from noetl_temporal.machine.engine import Engine
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.ids import EventIds
from noetl_temporal.machine.loops import chunks
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.state import Pending, state_snapshot
from noetl_temporal.machine.steps import exits, loops, routes
from noetl_temporal.machine.tasks import plan
from noetl_temporal.machine.tasks.call_input import CallInput
from noetl_temporal.machine.tasks.pipeline import Pipeline
from noetl_temporal.machine.timers import Timing

__all__ = ["MUTATIONS"]


# ---- replacements ----------------------------------------------------------------------------------------------------


def _ignore_machine_stop(_: Any, run: Any) -> bool:
    return bool(run.stop)


def _ignore_run_stop(self: Any, run: Any) -> bool:
    return self.state.stop is not None and not self._is_exempt(run)


def _snapshot_without_stop(self: Any) -> Any:
    return state_snapshot(replace(self.state, stop=None))


def _snapshot_without_ready(self: Any) -> Any:
    return state_snapshot(replace(self.state, ready=[]))


def _forgets_stored_lists(overridden_by: Any, *arguments: Any) -> Any:
    return CallInput(overridden_by(*arguments).values, {})


def _finish_at_once(self: Any, event: Any) -> None:
    self._stop("cancel", event.reason)
    self.state.stop.cancel_count = 2


def _never_skips(self: Any, event: Any) -> None:
    self._stop("cancel", event.reason)


def _handled_by_name(exit_after_failure: Any, execution: Any, step: Any, run: Any, end: Any, targets: Any) -> Any:
    if targets:
        log = execution.state.failures
        failures = [
            replace(failure, handled=True) if failure.step == step.name else failure for failure in log.detailed
        ]
        execution.state.failures = FailureLog(
            tuple(replace(count, handled=count.count) if count.step == step.name else count for count in log.counts),
            tuple(failures[: len(log.first)]),
            tuple(failures[len(log.first) :]),
            next((failure for failure in failures if not failure.handled), None),
        )
    return exit_after_failure(execution, step, run, end, targets)


def _counts_the_last_chunk(record_report: Any, progress: Any, *arguments: Any, continues: bool) -> None:
    progress.failures = FailureLog()
    record_report(progress, *arguments, continues=continues)


def _done_whatever_the_way(step_done: Any, execution: Any, step: Any, run: Any, end: Any, kind: str, way: Any) -> Any:
    if way is None or way.evaluation_failure is None or end.status != "ok":
        return step_done(execution, step, run, end, kind, way)
    getattr(exits, "_emit_end")(execution, step, run, end, "completed")  # noqa: B009 - what is private, too
    return routes.follow_routes(execution, step, run, "failed", way.evaluation_failure, way)


def _fails_by_its_way_alone(route: Any, execution: Any, step: Any, run: Any, status: str, end: Any, way: Any) -> Any:
    return route(
        execution, step, run, status, way.evaluation_failure if way is not None and way.evaluation_failure else end, way
    )


def _decided_at_once(decide: Any, self: Any, task: Any, report: Any, outcome: Any) -> Any:
    return replace(decide(self, task, report, outcome), delay=0.0)


def _cancelled_is_success(run_ended: Any, self: Any, run: Any, end: Any, kind: str) -> None:
    self.state.succeeded += end.status == "cancelled"
    run_ended(self, run, end, kind)


def _outside_is_well(chunk_finished: Any, self: Any, run: Any, event: Any, *, cancelled_here: bool) -> None:
    chunk_finished(self, run, replace(event, report=replace(event.report, status="ok")), cancelled_here=cancelled_here)


def _whole_share(_: Any) -> int:
    return 500


def _loses_the_rest(record_report: Any, progress: Any, chunk: Any, report: Any, *, continues: bool) -> None:
    record_report(progress, chunk, replace(report, unstarted=0), continues=continues)


def _gives_the_rest_last(record_report: Any, progress: Any, chunk: Any, report: Any, *, continues: bool) -> None:
    record_report(progress, chunk, report, continues=continues)
    progress.ranges.reverse()


async def _forgets_older_segments(values: Any, head: str) -> Any:
    """The last segment as if it were the only one."""
    segment = await segments.read_segment(values, head)
    report = {"results": segment.results, "assigns": segment.assigns}
    state = {**segment.state, **msgspec.to_builtins(report, str_keys=True)}
    return segments.Resumption(state, segment.calls, segment.report)


async def _forgets_all_segments(*_: Any) -> None:
    """Every item is begun again."""


async def _forgets_calls_in_flight(values: Any, head: str) -> Any:
    return replace(await segments.read_progress(values, head), calls=[])


async def _makes_the_last_call_again(values: Any, head: str) -> Any:
    """The snapshot is an older one than the segment's own."""
    older_head = (await segments.read_segment(values, head)).previous_key
    return await segments.read_progress(values, older_head or head)


def _restore_nothing(self: Any, _: Any) -> None:
    self.state.is_idling = False


def _never_fails_fast(stop: Any, self: Any, kind: str, reason: str = "") -> None:
    if kind != "fail_fast":
        stop(self, kind, reason)


def _keeps_delays(ask: Any, self: Any, run: Any) -> None:
    if run.pipeline is None or run.pipeline.phase != "delay":
        ask(self, run)


def _forgets_errors(feed: Any, self: Any, event: Any) -> Any:
    self._broken = None
    return feed(self, event)


def _no_cleanup_deadline(set_deadline: Any, self: Any, step: Any, run: Any, seconds: Any) -> None:
    if seconds is not None:
        set_deadline(self, step, run, seconds)


def _raising_is_no_match(predicate: Any, *arguments: Any, **keywords: Any) -> Any:
    try:
        return predicate(*arguments, **keywords)
    except templates.TemplateFailure:
        return templates.PredicateResult(False)


def _no(*_: Any) -> bool:
    return False


def _nothing(*_: Any) -> None:
    pass


def _return_one(*_: Any) -> int:
    return 1


def _return_a_billion(*_: Any) -> int:
    return 10**9


def _float(value: Any, *_: Any) -> float:
    return float(value)


def _int(value: Any, *_: Any, **__: Any) -> int:
    return int(value)


def _nothing_is_pending(self: Any) -> bool:
    return not (self.state.pending or self.state.timers)


def _allow_all_kinds(kinds_by_fact: Any) -> Any:
    return dict.fromkeys(kinds_by_fact, get_args(get_type_hints(Pending)["kind"]))


ENGINE: Any = Engine

MUTATIONS = (
    Mutation("41: a paused run begins nothing", Timing, "is_paused", replaced_by(property(_no))),
    Mutation("41: timeouts count unpaused time only", Timing, "_adjust_deadlines", replaced_by(_nothing)),
    Mutation("19a: the check where calls begin", ENGINE, "_is_stopped", replaced_by(_no)),
    Mutation("19a: the stop of a machine", ENGINE, "_is_stopped", replaced_by(_ignore_machine_stop)),
    Mutation("21: the stop of a late step", ENGINE, "_is_stopped", replaced_by(_ignore_run_stop)),
    Mutation("19a: a stop drops delays", ENGINE, "_cancel_run", wrapped_by(_keeps_delays)),
    Mutation("19a: a stop outlives a snapshot", ENGINE, "snapshot", replaced_by(_snapshot_without_stop)),
    Mutation("what is ready outlives a snapshot", ENGINE, "snapshot", replaced_by(_snapshot_without_ready)),
    Mutation("6a: a cancel meets the final step", ENGINE, "_cancel_requested", replaced_by(_finish_at_once)),
    Mutation("6a: a second cancel skips the cleanup", ENGINE, "_cancel_requested", replaced_by(_never_skips)),
    Mutation("6a: the cleanup has a bound", PlaybookMachine, "_set_deadline", wrapped_by(_no_cleanup_deadline)),
    Mutation("6: fail_fast of a playbook", PlaybookMachine, "_stop", wrapped_by(_never_fails_fast)),
    Mutation("22: fail_fast of a loop", LoopMachine, "_stop", wrapped_by(_never_fails_fast)),
    Mutation("19a: failures belong to a run", routes, "_exit_after_failure", wrapped_by(_handled_by_name)),
    Mutation("22: chunks count what failed", looping, "record_report", wrapped_by(_counts_the_last_chunk)),
    Mutation("34: a route that raises is an error", templates, "predicate", wrapped_by(_raising_is_no_match)),
    Mutation("34: a step whose way raises fails", exits, "_emit_and_route", wrapped_by(_done_whatever_the_way)),
    Mutation("34: a route that raises hides no failure", exits, "follow_routes", wrapped_by(_fails_by_its_way_alone)),
    Mutation("27: a called playbook gets stored lists", CallInput, "overridden_by", wrapped_by(_forgets_stored_lists)),
    Mutation("the delay after a lost call", Pipeline, "_evaluate_rules", wrapped_by(_decided_at_once)),
    Mutation("cancelled items are no successes", LoopMachine, "_run_ended", wrapped_by(_cancelled_is_success)),
    Mutation("a loop cancelled from outside failed", PlaybookMachine, "_chunk_finished", wrapped_by(_outside_is_well)),
    Mutation("22c: what a chunk gives back runs", looping, "record_report", wrapped_by(_loses_the_rest)),
    Mutation("22c: chunks of a sequential loop in order", looping, "record_report", wrapped_by(_gives_the_rest_last)),
    Mutation("22c: chunks share max_in_flight", chunks, "_free_share", replaced_by(_whole_share)),
    Mutation("22d: no segment is forgotten", activity, "read_progress", replaced_by(_forgets_older_segments)),
    Mutation("22d: no named item is called again", activity, "read_progress", replaced_by(_forgets_all_segments)),
    Mutation("22d: no named call is made again", activity, "read_progress", replaced_by(_makes_the_last_call_again)),
    Mutation("22d: calls in flight go on", activity, "read_progress", replaced_by(_forgets_calls_in_flight)),
    Mutation("22d: nothing begins while the store is away", SegmentWriter, "is_behind", replaced_by(property(_no))),
    Mutation(
        "26a: attempts that only the ledger knows count", CallLog, "add_unrecorded_attempts", replaced_by(_nothing)
    ),
    Mutation("timers keep no run from going on", ENGINE, "is_idle", replaced_by(property(_nothing_is_pending))),
    Mutation("timers go on in a new run", ENGINE, "_restore", replaced_by(_restore_nothing)),
    Mutation("an idling machine begins nothing", ENGINE, "_idle", replaced_by(_nothing)),
    Mutation("the budget of a workflow task", Budget, "is_spent", replaced_by(_no)),
    Mutation("calls in flight are bounded", ResultSizes, "max_in_flight", replaced_by(_return_a_billion)),
    Mutation("ids leave room for derived rows", EventIds, "reserve_derived_ids", replaced_by(_nothing)),
    Mutation("ids stand above those of a loop", EventIds, "skip_up_to", replaced_by(_nothing)),
    Mutation("a slot has one loop at a time", loops, "_free_slot", replaced_by(_return_one)),
    Mutation("names of steps and tasks in ids are escaped", plan, "escape_name", replaced_by(str)),
    Mutation("durations are checked", quantities, "seconds", replaced_by(_float)),
    Mutation("counts are checked", quantities, "count", replaced_by(_int)),
    Mutation("what is pending is typed", protocol, "COMPLETED_KINDS", _allow_all_kinds),
    Mutation("an error of the protocol is for good", ENGINE, "feed", wrapped_by(_forgets_errors)),
    *HOLD_MUTATIONS,
    *CLAIM_MUTATIONS,
    *BREAKER_MUTATIONS,
)
"""Each must be detected."""
