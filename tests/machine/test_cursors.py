"""Loops over a cursor (semantics 24): what is claimed, what becomes of each row, and what a stop leaves."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from noetl_compiler import compile_or_raise
from noetl_temporal.machine.call import AttemptRecord, ToolCall, ToolReport
from noetl_temporal.machine.commands import CallTool, RunChunk
from noetl_temporal.machine.facts import (
    CancelRequested,
    ReturnRequested,
    Started,
)
from noetl_temporal.machine.loops.cursor import loop_machine
from noetl_temporal.machine.playbook import PlaybookMachine
from tests.machine.claiming import Claiming, Table, cancel_while_claiming, report_of_stored_rows
from tests.machine.driver import Run, error, ok, report_of, run_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\nworkflow:\n"
STEP = """
  - step: drain
    loop:
      cursor:
        kind: postgres
        claim: "CLAIM {{ lease.token }} {{ __frame_max_rows }}"
        renew: "RENEW {{ row.id }}"
        ack: "ACK {{ row.id }} {{ output.status }}"
        release: "RELEASE {{ row.id }}"
        MORE
      iterator: job
      SETTINGS
    tool: {kind: noop, input: {n: "{{ iter.job.id }}"}}
"""


def drain(settings: str = "limit: 100", more: str = "on_row_error: ack") -> str:
    return HEAD + STEP.replace("SETTINGS", settings).replace("MORE", more)


def stats(run: Run) -> dict[str, int]:
    result: Any = run.finish.result
    stats: dict[str, int] = result["stats"]
    return stats


def test_all_rows_are_claimed_processed_and_acknowledged_once() -> None:
    table = Table(10)
    run = run_text(drain("spec: {max_in_flight: 3, frame: {max_rows: 2}}"), table.answer)
    assert run.finish.status == "completed"
    assert stats(run) == {"total": 10, "success": 10, "failed": 0, "skipped": 0}
    assert sorted(table.settlements) == sorted(("ACK", str(row), "ok") for row in range(10))
    tokens = [token for token, _, _ in table.claims]
    assert len(set(tokens)) == len(tokens)


def test_an_empty_table_is_queried_once() -> None:
    """Claimers become as many as have found rows."""
    table = Table(0)
    run = run_text(drain("spec: {max_in_flight: 50}"), table.answer)
    assert (len(table.claims), stats(run)["total"]) == (1, 0)


@pytest.mark.parametrize(("limit", "max_rows", "total"), [(5, 1, 5), (5, 3, 5), (0, 1, 0), (50, 4, 10)])
def test_limit_counts_claimed_rows(limit: int, max_rows: int, total: int) -> None:
    table = Table(10)
    spec = f"{{max_in_flight: 4, frame: {{max_rows: {max_rows}, row_concurrency: 2}}}}"
    run = run_text(drain(f"limit: {limit}\n      spec: {spec}"), table.answer)
    assert stats(run)["total"] == total
    assert sum(claimed for _, _, claimed in table.claims) == total


def test_a_failed_row_is_acknowledged_as_failed() -> None:
    table = Table(3, fails=lambda row, _: row == 1)
    run = run_text(drain(), table.answer)
    assert run.finish.status == "failed"
    assert ("ACK", "1", "error") in table.settlements


def test_retries_of_rows_are_counted() -> None:
    attempts = (AttemptRecord(1, 1_000, "error", do="retry"), AttemptRecord(2, 1_010, "ok"))

    def answer(call: ToolCall) -> Any:
        return ToolReport({"status": "ok"}, attempts=attempts) if call.kind == "noop" else table.answer(call)

    table = Table(2)
    run = run_text(drain(), answer)
    assert run.finish.steps["drain"]["retries"] == 2


def test_a_row_whose_tasks_continued_after_an_error_is_acknowledged_as_done() -> None:
    """Its first call went well, the one that repeats it did not, and no rule is for that."""
    requests = list[str]()

    def answer(call: ToolCall) -> Any:
        if call.kind != "noop":
            return table.answer(call)
        requests.append(call.id)
        return ToolReport({"status": "ok", "result": 1}, rule=0) if len(requests) == 1 else error("boom")

    table = Table(1)
    jump_spec = "spec: {policy: {rules: [{when: '{{ output.data }}', then: {do: jump, to: drain_task}}]}}, input:"
    text = drain().replace("input:", jump_spec).replace("{{ output.status }}", "{{ output.status }} {{ output.error }}")
    run = run_text(text, answer)
    assert stats(run)["success"] == 1
    assert table.settlements == [("ACK", "0", "ok", "None")]


@pytest.mark.parametrize(("heals_at", "failed"), [(2, 0), (3, 0), (99, 1)])
def test_a_released_row_is_claimed_again_until_max_attempts(heals_at: int, failed: int) -> None:
    table = Table(3, fails=lambda row, attempt: row == 1 and attempt < heals_at)
    spec = "spec: {frame: {max_attempts: 3}, policy: {failure: {mode: best_effort}}}"
    run = run_text(drain(spec, "on_row_error: release"), table.answer)
    releases = [settlement for settlement in table.settlements if settlement[0] == "RELEASE"]
    assert len(releases) == min(heals_at, 3) - 1
    assert stats(run)["failed"] == failed
    assert sorted(settlement[1] for settlement in table.settlements if settlement[0] == "ACK") == ["0", "1", "2"]


def test_without_attempts_in_the_row_it_is_not_released_endlessly() -> None:
    table = Table(1, fails=lambda _row, _attempt: True)
    run = run_text(drain(more='on_row_error: release\n        attempts: "{{ row.tries }}"'), table.answer)
    assert run.finish.status == "failed"
    assert table.settlements == [("ACK", "0", "error")]
    assert any("it is unknown how often it was claimed" in str(event) for event in run.events)


def test_a_refused_acknowledgement_fails_the_iteration() -> None:
    table = Table(3)
    table.lost_rows = {1}
    run = run_text(drain("spec: {policy: {failure: {mode: best_effort}}}"), table.answer)
    assert stats(run) == {"total": 3, "success": 2, "failed": 1, "skipped": 0}
    assert any("acknowledgement was refused" in str(event.error) for event in run.events)


def test_a_row_whose_lease_was_lost_is_not_done_although_its_tasks_continued() -> None:
    """The row of an iteration with pages: the lease is lost at the second, and the policy continues after errors."""
    table = Table(1)
    table.lost_rows = {0}
    rule = "{when: '{{ output.status == \"ok\" }}', then: {do: again, collect: {path: n, into: pages}}}"
    policy = f"spec: {{policy: {{on_unmatched: continue, rules: [{rule}]}}}}"
    text = drain().replace('n: "{{ iter.job.id }}"}', f'n: "{{{{ iter.job.id }}}}"}}, {policy}')

    def answer(call: ToolCall) -> Any:
        if call.kind == "noop" and call.page == 1:
            return replace(ok({"n": 1}), rule=0)
        return error("the lease has expired", "lease_lost") if call.kind == "noop" else table.answer(call)

    run = run_text(text, answer)
    assert table.settlements == [("ACK", "0", "ok")]
    assert stats(run) == {"total": 1, "success": 0, "failed": 1, "skipped": 0}


def test_the_lease_goes_with_each_call_of_the_row() -> None:
    run = run_text(drain("spec: {frame: {lease_seconds: 90}}"), Table(1).answer)
    (call,) = [call for call in run.calls if call.kind == "noop"]
    assert call.lease is not None
    assert (call.lease.kind, call.lease.seconds, call.lease.interval) == ("postgres", 90, 30)
    assert call.lease.config == {"query": "RENEW $1", "params": [0]}
    assert all(call.lease is None for call in run.calls if call.kind == "postgres")


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ("lease_seconds: 90", (90, 30)),
        ("lease_seconds: 2m, heartbeat_seconds: 10s", (120, 10)),
        ("lease_seconds: 30, heartbeat_seconds: 60", (30, 15)),
        ("lease_seconds: 0, heartbeat_seconds: 0", (1, 1 / 3)),
    ],
)
def test_the_interval_of_renewals(frame: str, expected: tuple[float, float]) -> None:
    run = run_text(drain(f"spec: {{frame: {{{frame}}}}}"), Table(1).answer)
    (lease,) = [call.lease for call in run.calls if call.lease is not None]
    assert (lease.seconds, lease.interval) == expected


def test_a_frame_is_one_item() -> None:
    text = drain("spec: {frame: {max_rows: 3, process: frame}}").replace("{{ iter.job.id }}", "{{ job | length }}")
    text = text.replace("{{ row.id }}", "{{ row[0].id }}")
    run = run_text(text, Table(5).answer)
    result: Any = run.finish.result
    assert result["results"] == [{"n": 3}, {"n": 2}]


def test_a_cursor_needs_only_a_claim_statement() -> None:
    """As upstream wrote it: the playbook's own tasks record what became of a row."""
    statements = ("renew", "ack", "release", "on_row")
    text = "\n".join(line for line in drain().splitlines() if not line.strip().startswith(statements))
    table = Table(4)
    run = run_text(text, table.answer)
    assert stats(run)["success"] == 4
    assert table.settlements == []


@pytest.mark.parametrize("restored", [False, True])
def test_a_claim_that_ran_before_a_row_was_released_does_not_end_the_loop(restored: bool) -> None:
    table = Table(1, fails=lambda _row, attempt: attempt == 1)
    claiming = Claiming(drain("spec: {max_in_flight: 2}", "on_row_error: release"), table)
    claiming.answer("claim")
    report = report_of(table.answer(claiming.calls["claim-2:claim:1"]))
    claiming.answer("drain_task")
    claiming.answer("release")
    if restored:
        claiming.restore()
    claiming.answer("claim-2", report)
    while claiming.calls:
        claiming.answer("")
    assert claiming.is_over
    assert table.settlements == [("RELEASE", "0"), ("ACK", "0", "ok")]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (error("no such table", "sql_42"), "claim: no such table"),
        (ok({"rows": [], "columns": [], "row_count": 3}), "claim: the statement returns no rows: add RETURNING to it"),
    ],
)
def test_a_claim_that_fails_fails_the_loop(answer: Any, message: str) -> None:
    run = run_text(drain(), lambda _call: answer)
    assert run.finish.status == "failed"
    assert run.finish.failures.cause is not None
    assert message in run.finish.failures.cause.message


# ---- stops and chunks ----


@pytest.mark.parametrize("restored", [False, True])
def test_a_cancelled_run_releases_its_rows(restored: bool) -> None:
    """Those that are worked on, those that wait, and those that a claim in flight brings."""
    claiming = Claiming(drain("spec: {max_in_flight: 2, frame: {max_rows: 3}}"), Table(6))
    claiming.answer("claim")
    claiming.feed(CancelRequested(claiming.at + 1, "enough"))
    if restored:
        claiming.restore()
    claiming.answer("drain_task", error("cancelled", "cancelled"), cancelled=True)
    while claiming.calls:
        assert not any("drain_task" in id_ for id_ in claiming.calls)
        claiming.answer("")
    assert claiming.is_over
    assert claiming.cancelled == ["0:drain_task:1"]
    assert sorted(claiming.table.settlements) == [
        ("RELEASE", str(row)) for row in range(len(claiming.table.settlements))
    ]
    assert sorted(claiming.table.pending) == list(range(6))
    assert claiming.machine.report is not None
    assert claiming.machine.report.status == "cancelled"


def test_a_row_that_is_done_when_the_run_is_cancelled_is_acknowledged() -> None:
    claiming = Claiming(drain("limit: 1"), Table(1))
    claiming.answer("claim")
    claiming.answer("drain_task")
    claiming.feed(CancelRequested(claiming.at + 1))
    claiming.answer("ack")
    assert claiming.table.settlements == [("ACK", "0", "ok")]
    assert claiming.is_over


def test_a_second_cancel_waits_for_no_release() -> None:
    claiming = Claiming(drain("limit: 1"), Table(1))
    claiming.answer("claim")
    claiming.feed(CancelRequested(claiming.at + 1))
    claiming.feed(CancelRequested(claiming.at + 2))
    claiming.answer("drain_task", error("cancelled", "cancelled"), cancelled=True)
    assert claiming.is_over
    assert claiming.table.settlements == []


def test_a_long_chunk_leaves_its_other_items_to_the_next() -> None:
    """It finishes what it has claimed, and says how many rows may still be."""
    claiming = Claiming(drain("limit: 10\n      spec: {frame: {max_rows: 2}}"), Table(10))
    claiming.answer("claim")
    claiming.feed(ReturnRequested(claiming.at + 1))
    while not claiming.is_over:
        claiming.answer("")
    report = claiming.machine.report
    assert report is not None
    total = report.stats["total"]
    assert total == sum(rows for _, _, rows in claiming.table.claims)
    assert report.unstarted == 10 - total > 0


def test_a_chunk_returns_nothing_before_it_has_claimed() -> None:
    """The next one would have its name."""
    machine = PlaybookMachine(compile_or_raise(drain("limit: 1")), execution_id=7)
    commands = machine.feed(Started(1_000, {}))
    loop = loop_machine(next(command.input for command in commands if isinstance(command, RunChunk)))
    loop.state.is_closed = True
    assert [command.call.task for command in loop.feed(Started(2_000)) if isinstance(command, CallTool)] == ["claim"]


def test_fail_fast_releases_the_other_rows() -> None:
    table = Table(5, fails=lambda row, _: row == 0)
    run = run_text(drain("spec: {on_error: fail_fast, frame: {max_rows: 5, row_concurrency: 1}}"), table.answer)
    assert run.finish.status == "failed"
    assert ("ACK", "0", "error") in table.settlements
    assert sorted(settlement[1] for settlement in table.settlements if settlement[0] == "RELEASE") == [
        "1",
        "2",
        "3",
        "4",
    ]


# ---- stored results ----


@pytest.mark.parametrize("restored", [False, True])
def test_stored_rows_are_released_by_a_stopping_run(restored: bool) -> None:
    """A stopped run loads no values, but for the rows of a claim that was in flight."""
    claiming = Claiming(drain("spec: {frame: {max_rows: 2}}"), Table(2))
    assert [*claiming.calls] == ["claim-1:claim:1"]
    cancel_while_claiming(claiming, restored=restored)
    assert claiming.table.settlements == [("RELEASE", "0"), ("RELEASE", "1")]
    assert claiming.is_over


def test_a_second_cancel_loads_no_rows() -> None:
    claiming = Claiming(drain("limit: 1"), Table(1))
    for _ in range(2):
        claiming.feed(CancelRequested(claiming.at + 1))
    claiming.answer("claim", report_of_stored_rows())
    assert claiming.is_over


@pytest.mark.parametrize(("word", "ends"), [("ack", 1), ("release", 0)])
def test_a_settlement_that_returns_many_rows_loads_none(word: str, ends: int) -> None:
    """It has changed those that it returns."""
    claiming = Claiming(drain("limit: 1"), Table(1))
    claiming.answer("claim")
    if word == "ack":
        claiming.answer("drain_task")
    claiming.feed(CancelRequested(claiming.at + 1))
    if word == "release":
        claiming.answer("drain_task", error("cancelled", "cancelled"), cancelled=True)
    claiming.answer(word, report_of_stored_rows())
    assert claiming.is_over
    assert claiming.machine.report is not None
    assert (claiming.machine.report.stats["success"], claiming.machine.report.stats["failed"]) == (ends, 0)


@pytest.mark.parametrize("seed", range(200))
def test_each_claimed_row_is_settled_once_under_any_schedule(seed: int) -> None:
    """Calls take effect and end in any order, some rows fail, snapshots and stops come at any moment."""
    chance = random.Random(seed)
    table = Table(chance.randrange(12), fails=lambda row, attempt: (row * 7 + attempt + seed) % 5 == 0)
    spec = f"max_in_flight: {chance.randrange(1, 5)}, frame: {{max_rows: {chance.randrange(1, 4)}, row_concurrency: 2}}"
    more = f"on_row_error: {chance.choice(['ack', 'release'])}"
    claiming = Claiming(drain(f"limit: {chance.choice([3, 100])}\n      spec: {{{spec}}}", more), table)
    stops = chance.choice([0, 0, 1])
    for _ in range(1_000):
        if claiming.is_over:
            break
        happens = chance.random()
        if happens < 0.05:
            claiming.restore()
        elif happens < 0.1 and stops:
            stops = 0
            claiming.feed(CancelRequested(claiming.at))
        elif happens < 0.12:
            claiming.feed(ReturnRequested(claiming.at))
        elif claiming.calls and happens < 0.4:
            claiming.do(chance.choice(list(claiming.calls)))
        elif claiming.calls:
            claiming.answer(chance.choice(list(claiming.calls)))
        claiming.go_on()
    assert claiming.is_over
    report = claiming.machine.report
    assert report is not None
    settlement_counts = Counter(settlement[1] for settlement in table.settlements)
    assert settlement_counts == Counter(str(row) for row, attempts in table.attempts.items() for _ in range(attempts))
    assert all(
        count <= 1
        for count in Counter(settlement[1] for settlement in table.settlements if settlement[0] == "ACK").values()
    )
    stats = report.stats
    assert stats["total"] == sum(table.attempts.values()) == stats["success"] + stats["failed"] + stats["skipped"]


@pytest.mark.parametrize("seed", range(100))
def test_a_loop_processes_every_released_row(seed: int) -> None:
    """Whatever takes effect first, and is reported first."""
    chance = random.Random(seed)
    table = Table(chance.randrange(1, 6), fails=lambda _row, _attempt: chance.random() < 0.5)
    spec = f"max_in_flight: {chance.randrange(2, 5)}, frame: {{max_rows: {chance.randrange(1, 3)}, max_attempts: 5}}"
    claiming = Claiming(drain(f"spec: {{{spec}}}", "on_row_error: release"), table)
    while not claiming.is_over:
        call = chance.choice(list(claiming.calls))
        claiming.do(call) if chance.random() < 0.5 else claiming.answer(call)
        claiming.go_on()
    assert table.pending == []
