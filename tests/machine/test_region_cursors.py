"""Loops over a cursor that repeat several steps, and those inside an iteration of another loop (semantics 24)."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.facts import CancelRequested, ReturnRequested, TimerFired

from .claiming import Claiming, Table, cancel_while_claiming
from .driver import Run, error, run_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\nworkflow:\n"
CURSOR = """\
      cursor:
        kind: postgres
        claim: "CLAIM {{ lease.token }} {{ __frame_max_rows }}"
        renew: "RENEW {{ row.id }} {{ lease.token }}"
        ack: "ACK {{ row.id }} {{ output.status }}"
        release: "RELEASE {{ row.id }}"
        on_row_error: RELEASES
      iterator: job
      spec: {SPEC}
"""
STEPS = """\
  - {step: first, tool: {kind: noop, input: {n: "{{ job.id }}"}}, next: {arcs: [{step: second}]}}
  - {step: second, tool: {kind: noop, input: {n: "{{ first.n }}"}}, next: {arcs: [{step: done}]}}
  - step: done
    spec: {end_loop: each}
    next: {arcs: [{step: repair, when: "{{ event.name == 'loop.failed' }}"}]}
  - {step: repair, tool: {kind: noop, input: {n: 0}}}
"""
REGION = f"{HEAD}  - step: each\n    loop:\n{CURSOR}    next: {{arcs: [{{step: first}}]}}\n{STEPS}"
ROUTES = f"""{HEAD}  - step: each
    loop:
{CURSOR}      next: {{arcs: [{{step: after, when: "{{{{ output.data.n is even }}}}"}}]}}
    tool: {{kind: noop, input: {{n: "{{{{ job.id }}}}"}}}}
  - {{step: after, tool: {{kind: noop, input: {{n: "{{{{ each.n }}}}"}}}}}}
"""
INSIDE = f"""{HEAD}  - {{step: each, loop: {{in: [1, 2], iterator: part}}, next: {{arcs: [{{step: drain}}]}}}}
  - step: drain
    loop:
{CURSOR}    tool: {{kind: noop, input: {{n: "{{{{ job.id }}}}"}}}}
    next: {{arcs: [{{step: done}}]}}
  - {{step: done, spec: {{end_loop: each}}}}
"""


def text(form: str, spec: str = "max_in_flight: 2, frame: {max_rows: 2}", releases: str = "ack") -> str:
    return form.replace("SPEC", spec).replace("RELEASES", releases)


def started(run: Run, step: str) -> int:
    return sum(event.type == "step.started" and event.node == step for event in run.events)


def test_a_row_runs_the_steps_and_is_acknowledged_once() -> None:
    table = Table(5)
    run = run_text(text(REGION), table.answer)
    assert run.finish.status == "completed"
    assert sorted(table.settlements) == sorted(("ACK", str(row), "ok") for row in range(5))
    assert (started(run, "first"), started(run, "second"), started(run, "done")) == (5, 5, 1)


def test_an_acknowledgement_sees_the_results_of_the_steps() -> None:
    table = Table(1)
    form = REGION.replace("{{ output.status }}", "{{ output.data.second.n }} {{ output.data.first.n }}")
    run_text(text(form), table.answer)
    assert table.settlements == [("ACK", "0", "0", "0")]


def test_the_end_of_the_loop_decides_on_failed_rows() -> None:
    table = Table(3, fails=lambda row, _: row == 1)
    run = run_text(text(REGION, "max_in_flight: 1"), table.answer)
    assert run.finish.status == "completed"
    assert ("ACK", "1", "error") in table.settlements
    [failure] = run.finish.failures.detailed
    assert (failure.step, failure.iteration, failure.handled) == ("first", 1, True)


def test_a_failed_row_is_released_and_claimed_again() -> None:
    table = Table(2, fails=lambda row, attempt: row == 0 and attempt == 1)
    run = run_text(text(REGION, releases="release"), table.answer)
    assert Counter(settlement[0] for settlement in table.settlements) == {"ACK": 2, "RELEASE": 1}
    assert run.finish.steps["each"]["iterations"] == {"total": 3, "success": 2, "failed": 0, "skipped": 1}


def test_the_route_of_a_row_comes_before_its_acknowledgement() -> None:
    table = Table(4)
    run = run_text(text(ROUTES), table.answer)
    assert started(run, "after") == 2
    assert sorted(table.settlements) == sorted(("ACK", str(row), "ok") for row in range(4))
    order = [call.step if call.kind == "noop" else call.task for call in run.calls if call.iteration == 0]
    assert order == ["each", "after", "ack"]


def test_a_failure_on_the_route_of_a_row_fails_the_row() -> None:
    def answer(call: ToolCall) -> Any:
        return error() if call.step == "after" else table.answer(call)

    table = Table(1)
    run_text(text(ROUTES), answer)
    assert table.settlements == [("ACK", "0", "error")]


def test_a_cursor_inside_an_iteration_is_drained_by_the_first() -> None:
    table = Table(5)
    run = run_text(text(INSIDE), table.answer)
    assert run.finish.status == "completed"
    assert sorted(table.settlements) == sorted(("ACK", str(row), "ok") for row in range(5))
    assert run.finish.steps["drain"]["iterations"]["total"] == 5
    tokens = [token for token, _, _ in table.claims]
    assert len(set(tokens)) == len(tokens)
    assert len({call.id for call in run.calls}) == len({call.key for call in run.calls}) == len(run.calls)


@pytest.mark.parametrize("form", [REGION, ROUTES])
def test_the_lease_goes_with_the_calls_of_all_steps(form: str) -> None:
    run = run_text(text(form), Table(1).answer)
    leases = [call.lease for call in run.calls if call.kind == "noop" and call.iteration is not None]
    assert len(leases) == 2
    for lease in leases:
        assert lease is not None
        assert lease.config["params"] == [0, run.calls[0].config["params"][0]]


def test_calls_of_a_loop_inside_renew_the_lease_of_the_row_around() -> None:
    inner = '- {step: first, loop: {in: [1, 2], iterator: x}, tool: {kind: noop, input: {n: "{{ job.id }}"}},'
    form = REGION.replace("- {step: first,", inner).replace(
        'tool: {kind: noop, input: {n: "{{ job.id }}"}}, next', "next"
    )
    form = form.replace("{{ first.n }}", "{{ job.id }}")
    run = run_text(text(form), Table(1).answer)
    calls = [call for call in run.calls if call.step == "first"]
    assert len(calls) == 2
    assert all(call.lease is not None and call.lease.config["params"][0] == 0 for call in calls)


def test_a_cursor_inside_a_row_renews_both_leases() -> None:
    inner = CURSOR.replace("iterator: job", "iterator: line").replace("row.id", "row.id + 100")
    step = f"""\
  - step: first
    loop:
{inner}    tool: {{kind: noop, input: {{n: "{{{{ line.id }}}}"}}}}
    next: {{arcs: [{{step: done}}]}}
"""
    form = (
        HEAD
        + f"  - step: each\n    loop:\n{CURSOR}    next: {{arcs: [{{step: first}}]}}\n{step}"
        + STEPS.partition("\n")[2]
    )
    form = form.replace(
        '  - {step: second, tool: {kind: noop, input: {n: "{{ first.n }}"}}, next: {arcs: [{step: done}]}}\n', ""
    )
    run = run_text(text(form, spec="max_in_flight: 1"), Table(2).answer)
    [lease] = [call.lease for call in run.calls if call.kind == "noop" and call.step == "first"]
    assert lease is not None
    assert lease.outer is not None
    assert (lease.config["params"][0], lease.outer.config["params"][0]) == (101, 0)
    claims = [call for call in run.calls if call.step == "first" and call.task == "claim"]
    assert all(call.lease is not None and call.lease.outer is None for call in claims), "that of the row around"


# ---- stops, snapshots and stored values ----

FORMS = pytest.mark.parametrize("form", [REGION, ROUTES, INSIDE], ids=["region", "routes", "inside"])


@FORMS
@pytest.mark.parametrize("restored", [False, True], ids=["in memory", "restored"])
def test_a_cancelled_run_releases_its_rows(form: str, restored: bool) -> None:
    """Those that are worked on, those that wait, and those that a claim in flight brings."""
    claiming = Claiming(text(form, "max_in_flight: 2, frame: {max_rows: 3}"), Table(6))
    claiming.answer("claim")
    claiming.feed(CancelRequested(claiming.at + 1, "enough"))
    if restored:
        claiming.restore()
    while claiming.calls:
        [id_, *_] = claiming.calls
        is_statement = claiming.calls[id_].kind == "postgres"
        claiming.answer(id_) if is_statement else claiming.answer(id_, error("cancelled", "cancelled"), cancelled=True)
    assert claiming.is_over
    assert {settlement[0] for settlement in claiming.table.settlements} == {"RELEASE"}
    assert sorted(claiming.table.pending) == list(range(6))
    assert claiming.machine.report is not None
    assert claiming.machine.report.status == "cancelled"


@FORMS
def test_a_second_cancel_waits_for_no_release(form: str) -> None:
    claiming = Claiming(text(form, "max_in_flight: 1"), Table(1))
    claiming.answer("claim")
    claiming.feed(CancelRequested(claiming.at + 1))
    claiming.feed(CancelRequested(claiming.at + 2))
    [id_] = claiming.calls
    claiming.answer(id_, error("cancelled", "cancelled"), cancelled=True)
    assert claiming.is_over
    assert claiming.table.settlements == []


@FORMS
@pytest.mark.parametrize("restored", [False, True], ids=["in memory", "restored"])
def test_rows_in_the_payload_store_are_released_by_a_stopping_run(form: str, restored: bool) -> None:
    claiming = Claiming(text(form), Table(2))
    cancel_while_claiming(claiming, restored=restored)
    assert claiming.table.settlements == [("RELEASE", "0"), ("RELEASE", "1")]
    assert claiming.is_over


def test_an_inner_loop_that_times_out_releases_its_rows() -> None:
    form = INSIDE.replace("    loop:\n      cursor", "    timeout: 5s\n    loop:\n      cursor")
    claiming = Claiming(text(form, "max_in_flight: 1"), Table(1))
    claiming.answer("claim")
    [timer] = claiming.machine.state.timers
    claiming.feed(TimerFired(claiming.at + 5_000, timer))
    claiming.answer("drain_task", error("cancelled", "cancelled"), cancelled=True)
    claiming.answer("release")
    assert claiming.table.settlements == [("RELEASE", "0")]


@FORMS
@pytest.mark.parametrize("seed", range(60))
def test_each_claimed_row_is_settled_once_under_any_schedule(form: str, seed: int) -> None:
    """Calls take effect and end in any order, some rows fail, snapshots and stops come at any moment."""
    chance = random.Random(seed)
    table = Table(chance.randrange(12), fails=lambda row, attempt: (row * 7 + attempt + seed) % 5 == 0)
    spec = f"max_in_flight: {chance.randrange(1, 5)}, frame: {{max_rows: {chance.randrange(1, 4)}, row_concurrency: 2}}"
    claiming = Claiming(text(form, spec, chance.choice(["ack", "release"])), table)
    stops = chance.choice([0, 0, 1])
    for _ in range(2_000):
        if claiming.is_over:
            break
        happens = chance.random()
        if happens < 0.05:
            claiming.restore()
        elif happens < 0.08 and stops:
            stops = 0
            claiming.feed(CancelRequested(claiming.at))
        elif happens < 0.1 and form is not INSIDE:
            claiming.feed(ReturnRequested(claiming.at))
        elif claiming.calls and happens < 0.4:
            claiming.do(chance.choice(list(claiming.calls)))
        elif claiming.calls:
            claiming.answer(chance.choice(list(claiming.calls)))
        claiming.go_on()
    assert claiming.is_over
    settlement_counts = Counter(settlement[1] for settlement in table.settlements)
    assert settlement_counts == Counter(str(row) for row, attempts in table.attempts.items() for _ in range(attempts))
    assert all(
        count <= 1
        for count in Counter(settlement[1] for settlement in table.settlements if settlement[0] == "ACK").values()
    )
