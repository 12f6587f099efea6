"""Recordings of runs that meet a limit: continue-as-new, the budget of a workflow task, and a long log."""

from __future__ import annotations

import asyncio
from typing import Any

from dev.histories.recording import Recording
from dev.histories.session import Session

__all__ = ["EDGES"]

HOST = "noetl_temporal.workflow_host."
BUDGET = "noetl_temporal.machine.budget."
SHORT: dict[str, Any] = {f"{HOST}SOFT_EVENTS": 40}
HARD: dict[str, Any] = {**SHORT, f"{HOST}HARD_EVENTS": 60}
FEW_PENDING: dict[str, Any] = {f"{BUDGET}MAX_PENDING": 5}
FEW_BYTES: dict[str, Any] = {f"{BUDGET}COMMAND_BYTES": 4_000}
LITTLE_WORK: dict[str, Any] = {f"{BUDGET}MAX_WORK": 500}
SHORT_TRAIL: dict[str, Any] = {"noetl_temporal.trail.MARKER_BYTES": 4_000}
WENT_ON = ("WORKFLOW_EXECUTION_CONTINUED_AS_NEW",)

ROUNDS = """\
  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: round}%s]}}
  - step: round
    tool: {kind: noop, message: round}
    set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
    next: {arcs: [{step: round, when: "{{ ctx.n < %d }}"}, {step: end}]}
  - {step: end, tool: {kind: noop, message: clean}}
"""
BESIDE = """\
  - {step: beside, tool: {kind: noop, message: gate}}
"""
POLLS = """\
  - {step: beside, spec: {timeout: 1h}, tool: [{name: poll, kind: noop, spec: {policy: {rules: [%s]}}}]}
"""
LATER = (
    '{when: "{{ (iter.n | default(0)) < 1 }}", '
    'then: {do: jump, to: poll, delay: 2, set: {iter.n: "{{ (iter.n | default(0)) + 1 }}"}}}'
)
LOOP = """\
  - step: start
    loop: {in: "{{ range(%d) | list }}", iterator: item%s, spec: {mode: %s}}
    tool: {kind: noop, message: "%s"}
"""
PAGES = """\
  - step: start
    spec: {timeout: 1h}
    tool: {kind: noop, message: page, spec: {policy: {rules: [{when: "{{ true }}", then: {do: again, attempts: 20}}]}}}
"""
ENDLESS = ROUNDS % ("", 100_000)


async def open_after_a_run(session: Session) -> None:
    """The branch beside holds up the rest until the hard limit is reached."""
    while not (await session.handle.workflow.query("state")).get("holding"):
        await asyncio.sleep(0.1)
    session.gate.set()


async def cancel_in_a_later_run(session: Session) -> None:
    await session.called("round", 12)
    await session.handle.cancel("enough")


def wide(branches: int) -> str:
    names = [f"b{number}" for number in range(branches)]
    arcs = ", ".join(f"{{step: {name}}}" for name in names)
    steps = "".join(f"  - {{step: {name}, tool: {{kind: noop}}}}\n" for name in names)
    return f"  - {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}}}\n{steps}"


EDGES = {
    "continued": Recording(ROUNDS % ("", 14), limits=SHORT, shows=WENT_ON),
    "continued_with_timers": Recording(
        ROUNDS % (", {step: beside}", 14) + POLLS % LATER,
        head="executor: {spec: {timeout: 1h}}\n",
        limits=SHORT,
        shows=(*WENT_ON, "TIMER_FIRED"),
    ),
    "continued_at_the_hard_limit": Recording(
        ROUNDS % (", {step: beside}", 14) + BESIDE, script=open_after_a_run, limits=HARD, shows=WENT_ON
    ),
    "continued_and_timed_out": Recording(
        ENDLESS, head="executor: {spec: {timeout: 2s}}\n", limits=SHORT, ends="failed", shows=WENT_ON
    ),
    "continued_and_cancelled": Recording(
        ENDLESS, script=cancel_in_a_later_run, limits=SHORT, ends="cancelled", shows=WENT_ON
    ),
    "continued_pages": Recording(PAGES, limits=SHORT, shows=WENT_ON),
    "continued_loop": Recording(LOOP % (12, "", "sequential", "{{ item }}"), limits=SHORT, shows=WENT_ON),
    "continued_loop_parallel": Recording(
        LOOP % (16, "", "parallel, max_in_flight: 2", "{{ item }}"), limits=SHORT, shows=WENT_ON
    ),
    "many_branches": Recording(wide(14), limits=FEW_PENDING),
    "many_bytes": Recording(LOOP % (9, "", "parallel", "{{ 'x' * 900 }}"), limits=FEW_BYTES, shows=("TIMER_FIRED",)),
    "much_work": Recording(
        LOOP % (300, ', where: "{{ item % 100 == 0 }}"', "sequential", "{{ item }}"),
        limits=LITTLE_WORK,
        shows=("TIMER_FIRED",),
    ),
    "long_log": Recording(
        LOOP % (20, "", "parallel", "{{ nothing }}"), limits=SHORT_TRAIL, ends="failed", shows=("MARKER_RECORDED",)
    ),
    "long_log_and_continued": Recording(
        ROUNDS % ("", 14),
        limits={**SHORT, "noetl_temporal.trail.MARKER_BYTES": 600},
        shows=("MARKER_RECORDED", *WENT_ON),
    ),
}
