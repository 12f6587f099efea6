"""Waits for times, signals and people, without Temporal: before, during and after the wait, over snapshots."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.commands import CallTool, Cancel, Emit, StartTimer
from noetl_temporal.machine.facts import CancelRequested, Decided, Fact, Signalled, TimerFired, WaitOpened
from noetl_temporal.machine.waits.refusals import (
    MAX_QUEUED_SIGNALS,
    MAX_REQUESTS,
    MAX_SIGNAL_BYTES,
    decision_refusal,
    is_repeated,
    signal_refusal,
)
from noetl_temporal.machine.waits.wait import Signal

from .driver import error
from .waited import WaitingRun

PAID = "  - step: start\n    tool: {kind: wait, signal: paid}\n"
TWO_WAITS = PAID + "    next: {arcs: [{step: again}]}\n  - step: again\n    tool: {kind: wait, signal: paid}\n"
LATE_WAIT = """\
  - step: start
    tool: {kind: wait, signal: paid, timeout: 10m, on_timeout: late}
    next: {arcs: [{step: good}]}
  - {step: good, tool: {kind: wait, duration: 1s}, set: {ctx.way: good}}
  - {step: late, tool: {kind: wait, duration: 1s}, set: {ctx.way: late}}
"""
REVIEW = """\
  - step: start
    tool:
      kind: approval
      message: Pay it?
      form: {amount: number, note: {type: string, required: true}}
      approvers: [ann, "{{ workload.boss }}"]
"""
FIXED_STEP = """\
  - step: start
    tool:
      kind: noop
      spec:
        policy:
          rules:
            - {when: "{{ output.status == 'error' }}", then: {do: retry, wait_for: fixed, timeout: 10m, attempts: 3}}
"""
REMIND = """\
  - step: start
    tool:
      - {name: ask, kind: noop}
      - name: review
        kind: approval
        timeout: 1d
        spec:
          policy:
            rules:
              - when: "{{ output.error.kind == 'timeout' and (ctx.reminders | default(0)) < 2 }}"
                then: {do: jump, to: ask, set: {ctx.reminders: "{{ (ctx.reminders | default(0)) + 1 }}"}}
            on_unmatched: fail
"""
snapshots = pytest.mark.parametrize("snapshots", [False, True], ids=["in memory", "restored"])


@snapshots
def test_a_signal_ends_the_wait_with_its_payload(snapshots: bool) -> None:
    run = WaitingRun(PAID, snapshots=snapshots)
    assert run.machine.is_idle
    [wait] = run.waits
    assert (wait.name, wait.kind, wait.signal) == ("start", "signal", "paid")
    run.signal("paid", {"amount": 3})
    assert (run.finish.status, run.finish.result) == ("completed", {"amount": 3})
    assert run.types("wait.", "signal.", "task.") == [
        "task.started",
        "wait.started",
        "signal.received",
        "wait.done",
        "task.done",
    ]


@snapshots
def test_a_rule_reminds_and_waits_again(snapshots: bool) -> None:
    run = WaitingRun(REMIND, snapshots=snapshots)
    run.call_ends()
    first = run.waits[0]
    run.timer_fires()
    assert (run.waits, len(run.of(CallTool))) == ([], 2)
    assert decision_refusal(run.machine.state, Decided(0, 9, first.id, True, "ann"), []) is not None
    run.call_ends()
    run.decide(run.waits[0])
    assert (run.finish.status, run.finish.result["by"]) == ("completed", "ann")


def test_reminders_end() -> None:
    run = WaitingRun(REMIND)
    for _ in range(3):
        run.call_ends()
        run.timer_fires()
    assert (run.finish.status, len(run.of(CallTool))) == ("failed", 3)


@snapshots
def test_signals_before_their_wait_are_kept_in_order(snapshots: bool) -> None:
    run = WaitingRun(
        "  - step: start\n    tool: {kind: noop}\n    next: {arcs: [{step: first}]}\n"
        + TWO_WAITS.replace("start", "first"),
        snapshots=snapshots,
    )
    run.signal("paid", 1)
    run.signal("paid", 2)
    assert not run.waits
    run.call_ends()
    assert run.finish.result == 2
    assert run.machine.state.queued_signals == {}


def test_a_signal_after_its_wait_is_kept_for_the_next_run_of_the_step() -> None:
    run = WaitingRun(TWO_WAITS)
    run.signal("paid", 1)
    assert [wait.name for wait in run.waits] == ["again"]
    run.signal("paid", 2)
    assert run.finish.result == 2


@snapshots
def test_a_wait_that_times_out_takes_its_route(snapshots: bool) -> None:
    run = WaitingRun(LATE_WAIT, snapshots=snapshots)
    [timer] = run.of(StartTimer)
    assert timer.seconds == 600
    run.feed(TimerFired, timer.timer_id)
    run.timer_fires()
    assert run.finish.status == "completed"
    assert set(run.finish.steps) == {"start", "late"}
    assert run.types("wait.") == ["wait.started", "wait.timed_out", "wait.started", "wait.done"]


def test_a_wait_that_ends_in_time_drops_its_timer() -> None:
    run = WaitingRun(LATE_WAIT)
    run.signal("paid")
    assert Cancel(run.of(StartTimer)[0].timer_id) in run.commands
    run.timer_fires()
    assert set(run.finish.steps) == {"start", "good"}


def test_only_the_wait_itself_takes_the_route_of_its_timeout() -> None:
    two = LATE_WAIT.replace(
        "tool: {kind: wait, signal: paid, timeout: 10m, on_timeout: late}",
        "tool: [{name: call, kind: noop}, {name: gate, kind: wait, signal: paid, timeout: 10m, on_timeout: late}]",
    )
    run = WaitingRun(two)
    run.call_ends(error("slow", "timeout"))
    assert run.finish.status == "failed"
    assert "late" not in run.finish.steps


@pytest.mark.parametrize(
    ("time_field", "seconds"),
    [
        ("duration: 4s", 4.0),
        ("duration: '{{ 1 + 2 }}'", 3.0),
        (f"until: {EPOCH_MS // 1000 + 60}", 59.0),
        ("until: '2024-01-01T00:01:00'", 59.0),
        ("until: '2024-01-01T01:01:00+01:00'", 59.0),
        ("until: '2023-01-01T00:00:00Z'", 0.0),
    ],
)
def test_a_wait_for_a_time_is_a_timer(time_field: str, seconds: float) -> None:
    run = WaitingRun(f"  - step: start\n    tool: {{kind: wait, {time_field}}}\n")
    [timer] = run.of(StartTimer)
    assert timer.seconds == seconds
    run.feed(TimerFired, timer.timer_id)
    assert (run.finish.status, run.finish.result) == ("completed", None)


@pytest.mark.parametrize(
    "time_field", ["until: tomorrow", 'duration: "{{ workload.x }}"', "until: '{{ [] }}'", "until: 100000000000"]
)
def test_a_value_that_is_not_a_time_fails_at_its_place(time_field: str) -> None:
    run = WaitingRun(f"  - step: start\n    tool: {{kind: wait, {time_field}}}\n", head="workload: {x: soon}\n")
    [failure] = run.finish.failures.detailed
    assert (failure.kind, failure.line) == ("template", 7)


@snapshots
def test_an_approval_yields_the_decision(snapshots: bool) -> None:
    run = WaitingRun(REVIEW, snapshots=snapshots, head="workload: {boss: eve}\n")
    [wait] = run.waits
    assert (wait.kind, wait.message, wait.approvers) == ("approval", "Pay it?", ("ann", "eve"))
    run.decide(wait, form={"note": "ok"}, reason="fine")
    assert run.finish.result == {
        "approved": True,
        "by": "ann",
        "at": "2024-01-01T00:00:02.000+00:00",
        "reason": "fine",
        "form": {"amount": None, "note": "ok"},
    }
    assert run.types("wait.", "approval.") == ["approval.requested", "approval.decided"]


def test_a_rejection_is_an_outcome_that_arcs_decide_on() -> None:
    arcs = '    next: {arcs: [{step: pay, when: "{{ output.data.approved }}"}, {step: drop}]}\n'
    ways = "  - {step: pay, tool: {kind: noop}}\n  - {step: drop, tool: {kind: noop}}\n"
    run = WaitingRun(REVIEW + arcs + ways, head="workload: {boss: eve}\n")
    run.decide(run.waits[0], approved=False)
    assert run.of(CallTool)[-1].call.step == "drop"


@snapshots
def test_a_retry_waits_for_its_signal(snapshots: bool) -> None:
    run = WaitingRun(FIXED_STEP, snapshots=snapshots)
    for attempt in (1, 2):
        run.call_ends(error(rule=0))
        [wait] = run.waits
        assert (wait.kind, wait.signal) == ("retry", "fixed")
        run.signal("fixed")
        assert len(run.of(CallTool)) == attempt + 1
    run.call_ends(error(rule=0))
    assert not run.waits
    assert (run.finish.status, run.finish.failures.detailed[0].message) == ("failed", "boom")


def test_a_retry_whose_signal_does_not_come_fails_with_what_had_failed() -> None:
    run = WaitingRun(FIXED_STEP)
    run.call_ends(error(rule=0))
    run.timer_fires()
    [failure] = run.finish.failures.detailed
    assert (failure.kind, failure.message) == ("tool", "boom; no signal 'fixed' came within 600 s")


@pytest.mark.parametrize("steps", [PAID, LATE_WAIT, FIXED_STEP], ids=["wait", "with a timeout", "retry"])
def test_a_cancel_ends_a_wait_at_once(steps: str) -> None:
    run = WaitingRun(steps)
    if steps == FIXED_STEP:
        run.call_ends(error(rule=0))
    run.feed(CancelRequested)
    assert run.finish.status == "cancelled"
    assert run.types("wait.") == ["wait.started", "wait.cancelled"]
    assert not run.waits


def test_the_timeout_of_a_step_ends_its_wait() -> None:
    run = WaitingRun("  - step: start\n    spec: {timeout: 30s}\n    tool: {kind: wait, signal: paid}\n")
    run.feed(TimerFired, "start#1:timeout")
    assert run.finish.failures.detailed[0].kind == "timeout"
    assert run.types("wait.") == ["wait.started", "wait.cancelled"]


KEYED_WAIT = """\
  - {step: start, tool: {kind: noop}, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}, {step: c}]}}
  - {step: a, tool: {kind: wait, signal: paid, key: 1}}
  - {step: b, tool: {kind: wait, signal: paid, key: two}}
  - {step: c, tool: {kind: wait, signal: paid}}
"""


@pytest.mark.parametrize(
    ("key", "left"),
    [("1", ["b", "c"]), ("two", ["a", "c"]), ("other", ["a", "b"]), (None, ["b", "c"])],
)
def test_a_key_distinguishes_waits(key: str | None, left: list[str]) -> None:
    run = WaitingRun(KEYED_WAIT)
    run.call_ends()
    run.signal("paid", key=key)
    assert [wait.name for wait in run.waits] == left


def test_a_kept_signal_with_a_key_waits_for_its_own() -> None:
    run = WaitingRun(KEYED_WAIT.replace("{step: c}", "").replace(", ]", "]"))
    run.signal("paid", "for two", "two")
    run.signal("paid", "for none", "none")
    run.call_ends()
    assert [wait.name for wait in run.waits] == ["a"]
    assert run.machine.state.queued_signals["paid"] == [Signal("paid", "for none", "none", request_id=2)]


def test_a_repeated_request_is_harmless() -> None:
    run = WaitingRun(
        "  - {step: start, tool: {kind: noop}, next: {arcs: [{step: w}]}}\n"
        "  - {step: w, tool: {kind: wait, signal: paid}}\n"
    )
    run.feed(Signalled, 5, Signal("paid", 1))
    run.feed(Signalled, 5, Signal("paid", 1))
    assert run.machine.state.queued_signals["paid"] == [Signal("paid", 1, request_id=5)]
    for number in range(6, 7 + MAX_REQUESTS):
        run.feed(Signalled, number, Signal("paid"))
    assert is_repeated(5, run.machine.state, ())
    assert len(run.machine.state.request_ids) <= MAX_REQUESTS


# ---- refusals --------------------------------------------------------------------------------------------------------


def refusal_of(run: WaitingRun, name: str, data: Any = None, unapplied_facts: list[Fact] | None = None) -> str | None:
    return signal_refusal(run.graph, run.machine.state, Signal(name, data), unapplied_facts or [])


def test_a_signal_that_no_step_waits_for_is_refused() -> None:
    assert refusal_of(WaitingRun(PAID), "pade") == "no step waits for the signal 'pade': its signals are paid"
    assert "it waits for no signals" in (refusal_of(WaitingRun(REVIEW, head="workload: {boss: x}\n"), "paid") or "")
    assert refusal_of(WaitingRun(FIXED_STEP), "fixed") is None


def test_a_payload_must_match_its_schema_and_maximum_size() -> None:
    schema = "{type: object, required: [amount], properties: {amount: {type: number, minimum: 1}}}"
    run = WaitingRun(f"  - step: start\n    tool: {{kind: wait, signal: paid, schema: {schema}}}\n")
    assert refusal_of(run, "paid", {"amount": 2}) is None
    assert refusal_of(run, "paid", 3) == "data must be a mapping"
    assert refusal_of(run, "paid", {}) == "data lacks 'amount'"
    assert refusal_of(run, "paid", {"amount": 0}) == "data.amount must be 1 or more"
    assert "bytes" in (refusal_of(run, "paid", {"amount": 1, "x": "x" * MAX_SIGNAL_BYTES}) or "")


def test_a_hundred_signals_of_a_name_are_kept() -> None:
    run = WaitingRun(
        "  - step: start\n    tool: {kind: noop}\n    next: {arcs: [{step: w}]}\n  - step: w\n"
        "    tool: {kind: wait, signal: paid}\n"
    )
    for _ in range(MAX_QUEUED_SIGNALS - 1):
        run.signal("paid")
    assert refusal_of(run, "paid") is None
    assert "100 signals" in (refusal_of(run, "paid", unapplied_facts=[Signalled(run.now, 999, Signal("paid"))]) or "")


def test_a_signal_for_an_open_wait_is_accepted_even_if_the_queue_is_full() -> None:
    run = WaitingRun("  - step: start\n    tool: {kind: wait, signal: paid, key: 0}\n")
    for _ in range(MAX_QUEUED_SIGNALS):
        run.signal("paid", key="1")
    state, awaited_signal, later = run.machine.state, Signal("paid", key="0"), Signal("paid", key="1")
    first = Signalled(run.now, 999, awaited_signal)
    assert signal_refusal(run.graph, state, awaited_signal, []) is None
    assert "100 signals" in (signal_refusal(run.graph, state, later, []) or "")
    assert "100 signals" in (signal_refusal(run.graph, state, awaited_signal, [first]) or "")


def test_two_approvals_at_once_are_one() -> None:
    run = WaitingRun(REVIEW, head="workload: {boss: eve}\n")
    [wait] = run.waits
    first = Decided(run.now, 1, wait.id, True, "ann", form={"note": "x"})
    second = Decided(run.now, 2, wait.id, False, "eve")
    assert decision_refusal(run.machine.state, first, []) is None
    assert "it was decided" in (decision_refusal(run.machine.state, second, [first]) or "")
    run.decide(wait, form={"note": "x"})
    assert "it was decided" in (decision_refusal(run.machine.state, second, []) or "")


def test_an_approval_that_a_chunk_has_just_reported_can_be_decided() -> None:
    """As where a worker died with the report, and the next one gets both in one workflow task."""
    run = WaitingRun(REVIEW, head="workload: {boss: eve}\n")
    [wait] = run.waits
    reported_wait = wait.qualified("each/1")
    decision = Decided(run.now, 5, reported_wait.id, True, "ann", form={"note": "x"})
    assert decision_refusal(run.machine.state, decision, []) is not None
    assert decision_refusal(run.machine.state, decision, [WaitOpened(run.now, reported_wait)]) is None


@pytest.mark.parametrize(
    ("form", "why"),
    [
        ({"by": "bob"}, "'bob' may not decide start: its approvers are ann, eve"),
        ({"form": {}}, "form lacks 'note'"),
        ({"by": "bob", "form": {}}, "'bob' may not decide start: its approvers are ann, eve; form lacks 'note'"),
        ({"form": {"note": 3}}, "form.note must be a string"),
        ({"form": {"note": "x", "more": 1}}, "form has 'more', expected amount, note"),
        ({"approved": False, "form": {}}, None),
        ({"approved": False, "form": {"amount": "x"}}, "form.amount must be a number"),
    ],
)
def test_a_decision_must_match_the_form(form: dict[str, Any], why: str | None) -> None:
    run = WaitingRun(REVIEW, head="workload: {boss: eve}\n")
    data: dict[str, Any] = {"approved": True, "by": "ann", "form": {"note": "x"}, **form}
    assert decision_refusal(run.machine.state, Decided(run.now, 1, run.waits[0].id, **data), []) == why


def test_a_wait_and_its_event_have_the_schema_of_its_signal() -> None:
    schema = {"type": "object", "required": ["amount"]}
    run = WaitingRun(
        "  - step: start\n    tool: {kind: wait, signal: paid, schema: {type: object, required: [amount]}}\n"
    )
    [started] = [command.event for command in run.of(Emit) if command.event.type == "wait.started"]
    assert ([wait.schema for wait in run.waits], started.meta["schema"]) == ([schema], schema)
