"""Recordings of runs that meet a limit: continue-as-new, the budget of a workflow task, and a long log."""

from __future__ import annotations

from typing import Any

from dev.histories.recording import Recording
from dev.histories.session import Session

__all__ = ["EDGES"]

HOST = "noetl_temporal.workflows.workflow_host."
BUDGET = "noetl_temporal.machine.budget."
SHORT: dict[str, Any] = {f"{HOST}SOFT_EVENTS": 25}
HARD: dict[str, Any] = {**SHORT, f"{HOST}HARD_EVENTS": 45}
SMALL_CHUNKS: dict[str, Any] = {"noetl_temporal.machine.loops.chunks.CHUNK_ITEMS": 3}
FEW_PENDING: dict[str, Any] = {f"{BUDGET}MAX_PENDING": 3}
FEW_BYTES: dict[str, Any] = {f"{BUDGET}COMMAND_BYTES": 4_000}
LITTLE_WORK: dict[str, Any] = {f"{BUDGET}MAX_WORK": 500}
SHORT_BOTH: dict[str, Any] = {**SHORT, "noetl_temporal.workflows.trail.MARKER_BYTES": 600}
SHORT_TRAIL: dict[str, Any] = {"noetl_temporal.workflows.trail.MARKER_BYTES": 4_000}
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
    tool: {kind: noop, message: page, spec: {policy: {rules: [{when: "{{ true }}", then: {do: again, attempts: 11}}]}}}
"""
LOOP_OF_PAGES = """\
  - step: start
    loop: {in: [1, 2], iterator: item, spec: {mode: sequential}}
    tool: {kind: noop, message: page, spec: {policy: {rules: [{when: "{{ true }}", then: {do: again, attempts: 11}}]}}}
"""
ENDLESS = ROUNDS % ("", 100_000)


async def open_after_a_run(session: Session) -> None:
    """Keep the other branch open until the hard limit is reached."""
    await session.wait_until_holding()
    session.gate.set()


async def cancel_in_a_later_run(session: Session) -> None:
    await session.wait_for_calls("round", 8)
    await session.handle.cancel("enough")


def wide(branches: int) -> str:
    names = [f"b{number}" for number in range(branches)]
    arcs = ", ".join(f"{{step: {name}}}" for name in names)
    steps = "".join(f"  - {{step: {name}, tool: {{kind: noop}}}}\n" for name in names)
    return f"  - {{step: start, next: {{spec: {{mode: inclusive}}, arcs: [{arcs}]}}}}\n{steps}"


EDGES = {
    "continued": Recording(ROUNDS % ("", 9), limits=SHORT, shows=WENT_ON),
    "continued_with_timers": Recording(
        ROUNDS % (", {step: beside}", 9) + POLLS % LATER,
        head="executor: {spec: {timeout: 1h}}\n",
        limits=SHORT,
        shows=(*WENT_ON, "TIMER_FIRED"),
    ),
    "continued_at_the_hard_limit": Recording(
        ROUNDS % (", {step: beside}", 9) + BESIDE, script=open_after_a_run, limits=HARD, shows=WENT_ON
    ),
    "continued_and_timed_out": Recording(
        ENDLESS, head="executor: {spec: {timeout: 2s}}\n", limits=SHORT, ends="failed", shows=WENT_ON
    ),
    "continued_and_cancelled": Recording(
        ENDLESS, script=cancel_in_a_later_run, limits=SHORT, ends="cancelled", shows=WENT_ON
    ),
    "continued_pages": Recording(PAGES, limits=SHORT, shows=WENT_ON),
    "continued_item_of_a_loop": Recording(LOOP_OF_PAGES, limits=SHORT, shows=WENT_ON),
    "loop_gives_items_back": Recording(LOOP % (8, "", "sequential", "{{ item }}"), limits=SHORT),
    "parallel_loop_gives_items_back": Recording(
        LOOP % (10, "", "parallel, max_in_flight: 2", "{{ item }}"), limits=SHORT
    ),
    "loop_in_chunks": Recording(LOOP % (10, "", "parallel, max_in_flight: 3", "{{ item }}"), limits=SMALL_CHUNKS),
    "sequential_loop_in_chunks": Recording(LOOP % (7, "", "sequential", "{{ item }}"), limits=SMALL_CHUNKS),
    "many_branches": Recording(wide(8), limits=FEW_PENDING),
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
        ROUNDS % ("", 9),
        limits=SHORT_BOTH,
        shows=("MARKER_RECORDED", *WENT_ON),
    ),
}
