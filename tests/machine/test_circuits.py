"""Circuit breakers (semantics.md 22b): as pure functions of facts, in a playbook's machine, and over chunks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_temporal.event_ids import EPOCH_MS
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.circuit_state import CircuitLimits, CircuitState
from noetl_temporal.machine.circuits import call_begins, call_cancelled, call_ended, latest_states
from noetl_temporal.machine.commands import CallTool, StartTimer
from noetl_temporal.machine.facts import CancelRequested, ToolFinished

from .driver import Run, error, ok, run_text, worker_lost
from .playbooks import playbook
from .waited import WaitingRun

Fact = tuple[str, int, str]
"""``begins``, ``ok``, ``error`` or ``cancelled``; the second; the call."""

IN_A_ROW, WITHIN, PROBING = CircuitLimits(2), CircuitLimits(2, window=10_000), CircuitLimits(2, probe=10_000)
OPEN: list[Fact] = [("begins", 1, "a"), ("error", 1, "a"), ("begins", 2, "b"), ("error", 2, "b")]


def changes_of(limits: CircuitLimits, facts: list[Fact]) -> tuple[CircuitState, list[str]]:
    """The circuit after these facts, and what became of it and of the calls that it refused."""
    state, lines = CircuitState(), list[str]()
    for fact, second, call in facts:
        match fact:
            case "begins":
                state, change, refusal = call_begins(state, limits, call, second * 1000)
                lines += [text for text in (change, f"{call} refused" if refusal else "") if text]
            case "cancelled":
                state = call_cancelled(state, call)
            case _:
                state, change = call_ended(state, call, second * 1000, failed=fact == "error")
                lines += [change] if change else []
    return state, lines


@pytest.mark.parametrize(
    ("limits", "facts", "expected"),
    [
        (IN_A_ROW, OPEN[:2], []),
        (IN_A_ROW, OPEN, ["circuit.opened"]),
        (IN_A_ROW, [*OPEN, ("begins", 9_999, "c")], ["circuit.opened", "c refused"]),
        (IN_A_ROW, [*OPEN[:2], ("begins", 2, "x"), ("ok", 2, "x"), *OPEN[2:]], []),
        (
            IN_A_ROW,
            [("begins", 1, "a"), ("error", 1, "a"), ("begins", 99, "b"), ("error", 99, "b")],
            ["circuit.opened"],
        ),
        (WITHIN, [*OPEN[:2], ("begins", 2, "x"), ("ok", 2, "x"), *OPEN[2:]], ["circuit.opened"]),
        (WITHIN, [*OPEN[:2], ("begins", 11, "b"), ("error", 11, "b")], []),
        (PROBING, [*OPEN, ("begins", 11, "c")], ["circuit.opened", "c refused"]),
        (PROBING, [*OPEN, ("begins", 12, "c")], ["circuit.opened", "circuit.probed"]),
        (
            PROBING,
            [*OPEN, ("begins", 12, "c"), ("begins", 13, "d")],
            ["circuit.opened", "circuit.probed", "d refused"],
        ),
        (
            PROBING,
            [*OPEN, ("begins", 12, "c"), ("ok", 13, "c"), ("begins", 13, "d"), ("error", 14, "d")],
            ["circuit.opened", "circuit.probed", "circuit.closed"],
        ),
        (
            PROBING,
            [*OPEN, ("begins", 12, "c"), ("error", 15, "c"), ("begins", 24, "d"), ("begins", 25, "e")],
            ["circuit.opened", "circuit.probed", "circuit.opened", "d refused", "circuit.probed"],
        ),
        (
            PROBING,
            [*OPEN, ("begins", 12, "c"), ("cancelled", 13, "c"), ("begins", 13, "d")],
            ["circuit.opened", "circuit.probed", "circuit.probed"],
        ),
        (
            PROBING,
            [("begins", 1, "late"), *OPEN, ("begins", 12, "c"), ("ok", 13, "late"), ("begins", 13, "d")],
            ["circuit.opened", "circuit.probed", "d refused"],
        ),
    ],
    ids=[
        "one failure is not two",
        "it opens",
        "it stays open without a probe",
        "a success between breaks the row",
        "a row has no time",
        "a success between does not count where there is a window",
        "failures outside of the window do not count",
        "before the time of the probe",
        "the probe",
        "one probe at a time",
        "a probe that succeeds closes it, and the count begins anew",
        "a probe that fails opens it anew",
        "a cancelled probe changes nothing",
        "a call that began before it opened does not close it",
    ],
)
def test_states_of_a_circuit(limits: CircuitLimits, facts: list[Fact], expected: list[str]) -> None:
    assert changes_of(limits, facts)[1] == expected


@given(
    st.integers(1, 4),
    st.none() | st.integers(0, 5_000),
    st.none() | st.integers(0, 5_000),
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(0, 4_000)), max_size=40),
)
def test_at_most_one_probe_and_no_call_while_it_is_open(
    failures: int, window: int | None, probe: int | None, facts: list[tuple[int, bool, int]]
) -> None:
    limits, state, at, opened_at = CircuitLimits(failures, window, probe), CircuitState(), EPOCH_MS, 0
    in_flight: dict[int, str] = {}
    probes: set[str] = set()
    for number, (slot, failed, wait) in enumerate(facts):
        at += wait
        if slot in in_flight:
            call = in_flight.pop(slot)
            state, change = call_ended(state, call, at, failed=failed)
            assert change in {"circuit.opened", "circuit.closed", ""}
            assert not (change and opened_at) or call in probes
            opened_at = at if change == "circuit.opened" else 0 if change == "circuit.closed" else opened_at
            probes.discard(call)
        else:
            call = f"call {number}"
            state, change, refusal = call_begins(state, limits, call, at)
            may_probe = probe is not None and at >= opened_at + probe and not probes
            assert bool(refusal) == (bool(opened_at) and not may_probe)
            if not refusal:
                in_flight[slot] = call
            if change:
                probes.add(call)
        assert len(probes) <= 1
        assert len(state.failure_times) <= failures


def test_the_circuit_of_the_chunk_whose_call_ended_last_is_used() -> None:
    open_circuit, closed_circuit = CircuitState((1, 2), opened_at=20, ended_at=20), CircuitState(ended_at=10)
    assert latest_states({"a": open_circuit}, {"a": closed_circuit, "b": closed_circuit}) == {
        "a": open_circuit,
        "b": closed_circuit,
    }
    assert latest_states({"a": closed_circuit}, {"a": open_circuit}) == {"a": open_circuit}


# ---- in the machine --------------------------------------------------------------------------------------------------

ROUNDS = """\
  - step: start
    tool:
      kind: noop
      spec: {policy: {circuit: CIRCUIT, on_unmatched: continue}}
    set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
    next: {arcs: [{step: start, when: "{{ ctx.n < ROUNDS }}"}, {step: start, when: "{{ error and ctx.n < ROUNDS }}"}]}
"""
LOOP = """\
  - step: start
    loop: {in: "{{ range(COUNT) | list }}", iterator: item, spec: {mode: sequential}}
    tool: {kind: noop, message: "{{ item }}", spec: {policy: {circuit: {failures: 3}, on_unmatched: fail}}}
"""
RETRIED_STEP = """\
  - step: start
    tool:
      - first: {kind: noop, spec: {policy: {circuit: CIRCUIT, rules: [RULE], on_unmatched: fail}}}
"""
RETRY = "{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 4, delay: 1}}"
snapshots = pytest.mark.parametrize("snapshots", [False, True], ids=["in memory", "restored"])


def rounds(circuit: str, count: int) -> str:
    """A step that runs so many times."""
    return ROUNDS.replace("CIRCUIT", circuit).replace("ROUNDS", str(count))


def retried_step(circuit: str) -> str:
    return RETRIED_STEP.replace("CIRCUIT", circuit).replace("RULE", RETRY)


def circuit_events(run: Run) -> list[str]:
    return [event.type for event in run.events if event.type.startswith("circuit.")]


def test_a_call_that_is_refused_is_not_an_activity_and_has_an_outcome_of_its_own() -> None:
    run = run_text(playbook(LOOP.replace("COUNT", "5")), lambda _: error())
    assert len(run.calls) == 3
    assert circuit_events(run) == ["circuit.opened"]
    assert [event.error for event in run.of("task.failed")][3:] == [
        "not called, the circuit breaker of start_task is open: it has no probe"
    ] * 2
    assert {count.kind for count in run.finish.failures.counts} >= {"tool", "circuit_open"}
    assert run.finish.steps["start"]["attempts"] == 3


@snapshots
def test_it_survives_a_continue_as_new_and_its_time_is_that_of_facts(snapshots: bool) -> None:
    run = WaitingRun(retried_step("{failures: 1, probe: 3s}"), snapshots=snapshots)
    run.call_ends(worker_lost())
    run.timer_fires()
    assert len(run.of(CallTool)) == 1
    run.timer_fires()
    assert len(run.of(CallTool)) == 1
    run.now += 1000
    run.timer_fires()
    assert len(run.of(CallTool)) == 2
    run.call_ends(ok("well"))
    assert run.types("circuit.") == ["circuit.opened", "circuit.probed", "circuit.closed"]
    assert (run.finish.status, run.finish.result) == ("completed", "well")


def test_a_refused_call_counts_as_an_attempt_of_its_rule() -> None:
    run = WaitingRun(retried_step("{failures: 1}"))
    run.call_ends(worker_lost())
    for _ in range(3):
        run.timer_fires()
    assert len(run.of(CallTool)) == 1
    assert len(run.of(StartTimer)) == 3
    assert run.finish.status == "failed"


@pytest.mark.parametrize("circuit", ['{failures: "{{ workload.many }}"}', "{failures: 1001}", "{failures: 0}"])
def test_values_that_are_not_numbers_fail_the_step_at_their_place(circuit: str) -> None:
    run = run_text(playbook(retried_step(circuit), "workload: {many: lots}\n"), lambda _: ok())
    assert run.finish.status == "failed"
    assert run.finish.failures.first[0].message.startswith("failures is")
    assert not run.calls


def test_a_stop_ends_a_run_whose_call_was_refused() -> None:
    run = WaitingRun(retried_step("{failures: 1}"))
    run.call_ends(worker_lost())
    run.timer_fires()
    run.feed(CancelRequested, "enough")
    assert run.finish.status == "cancelled"
    assert len(run.of(CallTool)) == 1


def test_a_step_that_runs_again_has_the_same_circuit() -> None:
    run = run_text(playbook(rounds("{failures: 2}", 5)), lambda _: error())
    assert len(run.calls) == 2


def test_the_chunks_of_a_sequential_loop_have_one_circuit() -> None:
    """900 items are several chunks: the circuit opens in one of them, and no later one calls."""

    def answer(call: ToolCall) -> Any:
        return error() if call.iteration is not None and call.iteration >= 290 else ok()

    run = run_text(playbook(LOOP.replace("COUNT", "900")), answer)
    assert len(run.of("loop.iteration.started")) == 900
    assert len(run.calls) == 293
    assert circuit_events(run) == ["circuit.opened"]


def test_a_success_between_chunks_resets_the_count_of_failures() -> None:
    run = run_text(playbook(LOOP.replace("COUNT", "900")), lambda call: error() if (call.iteration or 0) % 3 else ok())
    assert len(run.calls) == 900
    assert not circuit_events(run)


def test_a_probe_interrupted_by_a_cancel_has_ended() -> None:
    run = WaitingRun(retried_step("{failures: 1, probe: 1s}"))
    run.call_ends(worker_lost())
    run.timer_fires()
    probe = run.of(CallTool)[-1].call.id
    run.feed(CancelRequested, "enough")
    run.feed(ToolFinished, probe, error("cancelled", "cancelled"), cancelled=True)
    assert run.finish.status == "cancelled"
    assert run.machine.state.circuits["start/first"].probe_call == ""


REGION = """\
  - step: each
    loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: sequential}}
    next: {arcs: [{step: inner}]}
  - step: inner
    loop: {in: [1, 2], iterator: part, spec: {mode: sequential}}
    tool: {kind: noop, spec: {policy: {circuit: {failures: 3}, on_unmatched: continue}}}
    next: {arcs: [{step: done}]}
  - {step: done, spec: {end_loop: each}}
"""


def test_all_iterations_of_a_loop_over_steps_have_one_circuit() -> None:
    run = run_text(playbook(REGION), lambda _: error())
    assert len(run.of("loop.iteration.started")) == 12
    assert len(run.calls) == 3
    assert circuit_events(run) == ["circuit.opened"]


def test_a_policy_of_the_playbook_gives_each_task_a_circuit_of_its_own() -> None:
    head = "executor: {spec: {policy: {circuit: {failures: 1}, on_unmatched: continue}}}\n"
    tasks = "  - step: start\n    tool:\n      - first: {kind: noop}\n      - second: {kind: noop}\n"
    run = run_text(playbook(tasks, head), lambda _: error())
    assert [call.task for call in run.calls] == ["first", "second"]
