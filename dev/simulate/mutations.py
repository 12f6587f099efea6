"""Cures of the machine, switched off one at a time: the simulation must notice each of them.

A cure that can be taken away without a finding is one that nothing holds.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple
from unittest.mock import patch

import msgspec
from msgspec.structs import replace

from dev.simulate.runs import simulate
from noetl_compiler import templates
from noetl_temporal.frames import activity, segments
from noetl_temporal.frames.keeper import Keeper
from noetl_temporal.machine import playbook, protocol, quantities
from noetl_temporal.machine.budget import Budget, ResultSizes
from noetl_temporal.machine.engine import Engine
from noetl_temporal.machine.failure_log import FailureLog
from noetl_temporal.machine.ids import EventIds
from noetl_temporal.machine.loops import chunks
from noetl_temporal.machine.loops.loop import LoopMachine
from noetl_temporal.machine.playbook import Machine
from noetl_temporal.machine.state import state_snapshot
from noetl_temporal.machine.steps import entry, exits, loops, routes
from noetl_temporal.machine.tasks import calls, settling

__all__ = ["MUTATIONS", "Mutation", "examined"]


class Mutation(NamedTuple):
    """``cure`` says what is switched off, ``switch_off`` the patches that do it."""

    cure: str
    switch_off: Callable[[], list[Any]]


class Verdict(NamedTuple):
    """``law`` is "" when nothing was found in ``seeds`` seeds."""

    cure: str
    law: str
    seed: int
    seeds: int
    seconds: float


def examined(mutation: Mutation, first: int, seconds: float) -> Verdict:
    """Run seeds under a mutation until a law breaks that holds without it, or the time is over."""
    began, seed = time.monotonic(), first
    while time.monotonic() < began + seconds:
        with _mutated(mutation):
            found = simulate(seed).finding
        if found is not None and simulate(seed).finding is None:
            return Verdict(mutation.cure, found.law, seed, seed - first + 1, time.monotonic() - began)
        seed += 1
    return Verdict(mutation.cure, "", 0, seed - first, time.monotonic() - began)


@contextlib.contextmanager
def _mutated(mutation: Mutation) -> Generator[None]:
    with contextlib.ExitStack() as stack:
        for change in mutation.switch_off():
            stack.enter_context(change)
        yield


def _off(owner: Any, name: str, instead: Any) -> list[Any]:
    return [patch.object(owner, name, instead)]


# ---- what is switched off -------------------------------------------------------------------------------------------


def _ignore_machine_stop(_: Any, run: Any) -> bool:
    return bool(run.stop)


def _ignore_run_stop(self: Any, run: Any) -> bool:
    return self.state.stop is not None and not self._is_exempt(run)


def _snapshot_without(**lost: Any) -> list[Any]:
    def snapshot(self: Any) -> Any:
        return state_snapshot(msgspec.structs.replace(self.state, **lost))

    return _off(ENGINE, "snapshot", snapshot)


def _finish_at_once(self: Any, event: Any) -> None:
    self._stop("cancel", event.reason)
    self.state.stop.cancels = 2


def _never_skips(self: Any, event: Any) -> None:
    self._stop("cancel", event.reason)


def _handled_by_name(execution: Any, step: Any, run: Any, end: Any, targets: Any) -> Any:
    if targets:
        log = execution.state.failures
        kept = [replace(one, handled=True) if one.step == step.name else one for one in log.kept]
        execution.state.failures = FailureLog(
            tuple(replace(one, handled=one.count) if one.step == step.name else one for one in log.counts),
            tuple(kept[: len(log.first)]),
            tuple(kept[len(log.first) :]),
            next((one for one in kept if not one.handled), None),
        )
    return _FAILED(execution, step, run, end, targets)


def _only_the_last(_: Any, other: Any) -> Any:
    return other


def _done_whatever_the_way(execution: Any, step: Any, run: Any, end: Any, kind: str, way: Any) -> Any:
    if way is None or way.raised is None or end.status != "ok":
        return _TOLD(execution, step, run, end, kind, way)
    _EMIT_END(execution, step, run, end, "completed")
    return _ROUTE(execution, step, run, "failed", way.raised, way)


def _fails_by_its_way_alone(execution: Any, step: Any, run: Any, status: str, end: Any, way: Any) -> Any:
    return _ROUTE(execution, step, run, status, way.raised if way is not None and way.raised else end, way)


def _decided_at_once(self: Any, task: Any, report: Any, outcome: Any) -> Any:
    return msgspec.structs.replace(_DECIDE(self, task, report, outcome), delay=0.0)


def _cancelled_is_success(self: Any, run: Any, end: Any, kind: str) -> None:
    self.state.succeeded += end.status == "cancelled"
    _RUN_ENDED(self, run, end, kind)


def _outside_is_well(self: Any, run: Any, event: Any, *, was_asked: bool) -> None:
    report = msgspec.structs.replace(event.report, status="ok")
    _CHUNK_FINISHED(self, run, msgspec.structs.replace(event, report=report), was_asked=was_asked)


def _whole_share(_: Any) -> int:
    return 500


def _loses_the_rest(progress: Any, chunk: Any, report: Any, *, goes_on: bool) -> None:
    _TAKE_REPORT(progress, chunk, msgspec.structs.replace(report, rest=0), goes_on=goes_on)


def _gives_the_rest_last(progress: Any, chunk: Any, report: Any, *, goes_on: bool) -> None:
    _TAKE_REPORT(progress, chunk, report, goes_on=goes_on)
    progress.ranges.reverse()


async def _forgets_older_segments(values: Any, head: str) -> Any:
    """The last segment as if it were the only one."""
    last = await segments.read(values, head)
    told = {"results": last.results, "assigns": last.assigns}
    state = {**last.state, **msgspec.to_builtins(told, str_keys=True)}
    return segments.Resumption(state, last.calls, last.report)


async def _forgets_all_segments(*_: Any) -> None:
    """Every item is begun again."""


async def _forgets_calls_in_flight(values: Any, head: str) -> Any:
    return msgspec.structs.replace(await segments.resumed(values, head), calls=[])


async def _makes_the_last_call_again(values: Any, head: str) -> Any:
    """The snapshot is an older one than the segment's own."""
    older = (await segments.read(values, head)).older
    return await segments.resumed(values, older or head)


def _resume_nothing(self: Any, _: Any) -> None:
    self.state.holding = False


def _never_fails_fast(self: Any, kind: str, reason: str = "") -> None:
    if kind != "fail_fast":
        _STOP(self, kind, reason)


def _keeps_delays(self: Any, run: Any) -> None:
    if run.pipeline is None or run.pipeline.phase != "delay":
        _ASK(self, run)


def _forgets_errors(self: Any, event: Any) -> Any:
    self._broken = None
    return _FEED(self, event)


def _no_cleanup_deadline(self: Any, step: Any, run: Any, seconds: Any) -> None:
    if seconds is not None:
        _SET_DEADLINE(self, step, run, seconds)


def _raising_is_no_match(*given: Any, **more: Any) -> Any:
    try:
        return _PREDICATE(*given, **more)
    except templates.TemplateFailure:
        return templates.Verdict(False)


def _no(*_: Any) -> bool:
    return False


def _nothing(*_: Any) -> None:
    pass


def _one(*_: Any) -> int:
    return 1


def _very_many(*_: Any) -> int:
    return 10**9


def _float(value: Any, *_: Any) -> float:
    return float(value)


def _int(value: Any, *_: Any, **__: Any) -> int:
    return int(value)


def _nothing_is_pending(self: Any) -> bool:
    return not (self.state.pending or self.state.timers)


def _untyped() -> list[Any]:
    kinds = ("call", "loop", "delay", "deadline")
    return _off(protocol, "ANSWERED", dict.fromkeys(protocol.ANSWERED, kinds))


def _plain_names() -> list[Any]:
    return [change for module in (entry, calls) for change in _off(module, "escaped", str)]


_FAILED: Any = getattr(routes, "_failed")  # noqa: B009 - what is private may be switched off, too
_TOLD: Any = getattr(exits, "_told")  # noqa: B009
_EMIT_END: Any = getattr(exits, "_emit_end")  # noqa: B009
_ROUTE: Any = routes.route
ENGINE: Any = Engine
_DECIDE: Any = getattr(settling.Settling, "_decide_loss")  # noqa: B009
_RUN_ENDED: Any = getattr(LoopMachine, "_run_ended")  # noqa: B009
_CHUNK_FINISHED: Any = getattr(Machine, "_chunk_finished")  # noqa: B009
_TAKE_REPORT: Any = chunks.take_report
_SET_DEADLINE: Any = getattr(Machine, "_set_deadline")  # noqa: B009
_STOP: Any = getattr(Engine, "_stop")  # noqa: B009
_ASK: Any = getattr(Engine, "_ask_run_to_end")  # noqa: B009
_FEED: Any = ENGINE.feed
_PREDICATE = templates.predicate

MUTATIONS = (
    Mutation("19a: the check where calls begin", lambda: _off(ENGINE, "_is_stopped", _no)),
    Mutation("19a: the stop of a machine", lambda: _off(ENGINE, "_is_stopped", _ignore_machine_stop)),
    Mutation("21: the stop of a late step", lambda: _off(ENGINE, "_is_stopped", _ignore_run_stop)),
    Mutation("19a: a stop drops delays", lambda: _off(ENGINE, "_ask_run_to_end", _keeps_delays)),
    Mutation("19a: a stop outlives a snapshot", lambda: _snapshot_without(stop=None)),
    Mutation("what is ready outlives a snapshot", lambda: _snapshot_without(ready=[])),
    Mutation("6a: a cancel meets the final step", lambda: _off(ENGINE, "_cancel_requested", _finish_at_once)),
    Mutation("6a: a second cancel skips the cleanup", lambda: _off(ENGINE, "_cancel_requested", _never_skips)),
    Mutation("6a: the cleanup has a bound", lambda: _off(Machine, "_set_deadline", _no_cleanup_deadline)),
    Mutation("6: fail_fast of a playbook", lambda: _off(Machine, "_stop", _never_fails_fast)),
    Mutation("22: fail_fast of a loop", lambda: _off(LoopMachine, "_stop", _never_fails_fast)),
    Mutation("19a: failures belong to a run", lambda: _off(routes, "_failed", _handled_by_name)),
    Mutation("22: chunks count what failed", lambda: _off(FailureLog, "merged", _only_the_last)),
    Mutation("34: a route that raises is an error", lambda: _off(templates, "predicate", _raising_is_no_match)),
    Mutation("34: a step whose way raises fails", lambda: _off(exits, "_told", _done_whatever_the_way)),
    Mutation("34: a way that raises hides no failure", lambda: _off(exits, "route", _fails_by_its_way_alone)),
    Mutation("the delay after a lost call", lambda: _off(settling.Settling, "_decide_loss", _decided_at_once)),
    Mutation("cancelled items are no successes", lambda: _off(LoopMachine, "_run_ended", _cancelled_is_success)),
    Mutation("a loop cancelled from outside failed", lambda: _off(Machine, "_chunk_finished", _outside_is_well)),
    Mutation("22c: what a chunk gives back runs", lambda: _off(playbook, "take_report", _loses_the_rest)),
    Mutation(
        "22c: chunks of a sequential loop run in order", lambda: _off(playbook, "take_report", _gives_the_rest_last)
    ),
    Mutation("22c: chunks share max_in_flight", lambda: _off(chunks, "_free_share", _whole_share)),
    Mutation("22d: no segment is forgotten", lambda: _off(activity, "resumed", _forgets_older_segments)),
    Mutation("22d: no named item is called again", lambda: _off(activity, "resumed", _forgets_all_segments)),
    Mutation("22d: no named call is made again", lambda: _off(activity, "resumed", _makes_the_last_call_again)),
    Mutation("22d: calls in flight go on", lambda: _off(activity, "resumed", _forgets_calls_in_flight)),
    Mutation("22d: nothing begins while the store is away", lambda: _off(Keeper, "is_behind", property(_no))),
    Mutation(
        "timers keep no run from going on",
        lambda: _off(ENGINE, "is_idle", property(_nothing_is_pending)),
    ),
    Mutation("timers go on in a new run", lambda: _off(ENGINE, "_resume", _resume_nothing)),
    Mutation("a machine that holds begins nothing", lambda: _off(ENGINE, "_hold", _nothing)),
    Mutation("the budget of a workflow task", lambda: _off(Budget, "is_spent", property(_no))),
    Mutation("calls in flight are bounded", lambda: _off(ResultSizes, "max_in_flight", property(_very_many))),
    Mutation("ids leave room for derived rows", lambda: _off(EventIds, "leave_room", _nothing)),
    Mutation("ids stand above those of a loop", lambda: _off(EventIds, "rise", _nothing)),
    Mutation("a slot has one loop at a time", lambda: _off(loops, "_free_slot", _one)),
    Mutation("names in ids are escaped", _plain_names),
    Mutation("durations are checked", lambda: _off(quantities, "seconds", _float)),
    Mutation("counts are checked", lambda: _off(quantities, "count", _int)),
    Mutation("what is pending is typed", _untyped),
    Mutation("an error of the protocol is for good", lambda: _off(ENGINE, "feed", _forgets_errors)),
)
"""What must be found. Where the machine renames a cure, its line fails loudly: there is no such attribute."""
