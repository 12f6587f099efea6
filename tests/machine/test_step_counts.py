"""What the summary of a run counts of a step: calls with their retries, and iterations."""

from __future__ import annotations

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.machine.call import AttemptRecord, ToolCall, ToolReport

from .driver import Answer, error, ok, run_text, worker_lost

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: counts}\nworkflow:\n"

RETRYING = """  - step: start
    tool:
      - fetch:
          kind: http
          url: "http://x"
          spec: {policy: {rules: [{when: "{{ output.status == 'error' }}", then: {do: retry, attempts: 5}}]}}
      - keep: {kind: python, code: "result = 1"}
"""
LOOP = """  - step: start
    loop: {in: [1, 2, 3], iterator: item}
    tool: {kind: http, url: "http://x"}
"""


def counts(text: str, answer: Answer) -> dict[str, Json]:
    steps = run_text(HEAD + text, answer).finish.steps["start"]
    return {name: value for name, value in steps.items() if name not in ("status", "duration_seconds")}


def test_the_time_of_a_step_in_parallel_iterations_is_not_added_up() -> None:
    inside = """  - step: start
    loop: {in: "{{ range(10) | list }}", iterator: item, mode: MODE}
    next: {arcs: [{step: each}]}
  - step: each
    tool: {kind: http, url: "http://x"}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: http, url: "http://x"}
    next: {arcs: [{step: collect}]}
  - step: collect
    spec: {end_loop: start}
    tool: {kind: python, code: "result = 1"}
"""
    counts_by_step = {
        mode: run_text(HEAD + inside.replace("MODE", mode), lambda _call: ok()).finish.steps
        for mode in ("sequential", "parallel")
    }
    for mode in counts_by_step:
        assert counts_by_step[mode]["each"]["duration_seconds"] <= counts_by_step[mode]["start"]["duration_seconds"]
    one_after_the_other = counts_by_step["sequential"]
    both = one_after_the_other["each"]["duration_seconds"] + one_after_the_other["after"]["duration_seconds"]
    assert both <= one_after_the_other["start"]["duration_seconds"]


def after(attempts: int, report: ToolReport) -> ToolReport:
    """The report of a call that took so many attempts."""
    records = tuple(AttemptRecord(number) for number in range(1, attempts + 1))
    return msgspec.structs.replace(report, attempts=records)


def test_retries_of_the_activity() -> None:
    assert counts(RETRYING, lambda call: after(3 if call.kind == "http" else 1, ok())) == {"attempts": 4, "retries": 2}


def test_retries_that_the_machine_decides() -> None:
    answers = iter([worker_lost(), worker_lost(), ok(), ok()])
    assert counts(RETRYING, lambda _call: next(answers)) == {"attempts": 4, "retries": 2}


def test_iterations_of_a_loop() -> None:
    def answer(call: ToolCall) -> ToolReport:
        return after(2, error() if call.iteration == 1 else ok())

    stats = {"total": 3, "success": 2, "failed": 1, "skipped": 0}
    assert counts(LOOP, answer) == {"attempts": 6, "retries": 3, "iterations": stats}


def test_counts_of_repeated_step_runs_are_added() -> None:
    jump_rules = (
        LOOP
        + """    next: {arcs: [{step: start, when: "{{ not ctx.again }}", set: {ctx.again: true}}]}
workload: {again: false}
"""
    )
    stats = {"total": 6, "success": 6, "failed": 0, "skipped": 0}
    assert counts(jump_rules, lambda _call: ok()) == {"attempts": 6, "retries": 0, "iterations": stats}
