"""Recordings of loops."""

from __future__ import annotations

from dev.histories.recording import Recording
from dev.histories.session import Session

__all__ = ["LOOPS"]


def loop(
    spec: str, more: str = "", message: str = "{{ item }}", remainder: str = "", items: str = "[1, 2, 3, 4]"
) -> str:
    return f"""\
  - step: start
    loop: {{in: {items}, iterator: item, spec: {{{spec}}}{more}}}
    tool: {{kind: noop, message: "{message}"}}
{remainder}"""


BROKEN = """["a", "broken", "c", "d"]"""
BACK = """\
  - step: start
    loop: {in: [1, 2], iterator: item, spec: {mode: parallel}}
    tool: {kind: noop, message: "{{ item }}"}
    set: {ctx.n: "{{ (ctx.n | default(0)) + 1 }}"}
    next: {arcs: [{step: start, when: "{{ ctx.n < 2 }}"}, {step: after}]}
  - {step: after, tool: {kind: noop}}
"""
BESIDE = """\
  - {step: start, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
  - {step: a, loop: {in: [1], iterator: item}, tool: {kind: noop}}
  - {step: b, loop: {in: [1], iterator: item}, tool: {kind: noop}}
"""
TASKS = """\
  - step: start
    loop: {in: [1, 2, 3], iterator: item, spec: {mode: parallel, reduce: {ctx.all: append}}}
    tool:
      - {name: get, kind: noop, message: busy, spec: {policy: {rules: [RETRY]}}}
      - name: poll
        kind: noop
        message: "{{ item }}"
        sink: {tool: postgres, auth: pg, table: t, mode: replace, data: {n: "{{ output.data }}"}}
        set: {ctx.all: "{{ item * 10 }}"}
        spec: {policy: {rules: [JUMP]}}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop, message: "{{ ctx.all }}"}}
"""
RETRY = '{when: "{{ output.error.retryable }}", then: {do: retry, attempts: 4, delay: 0.05}}'
JUMP = (
    '{when: "{{ (iter.n | default(0)) < 1 }}", '
    'then: {do: jump, to: poll, delay: 0.05, set: {iter.n: "{{ (iter.n | default(0)) + 1 }}"}}}'
)
REPAIR = """\
    next: {arcs: [{step: repair, when: "{{ event.name == 'loop.failed' }}"}]}
  - {step: repair, tool: {kind: noop, message: "{{ start.stats.failed }}"}}
"""


async def cancel_child(session: Session) -> None:
    await session.wait_for_calls("wait")
    await session.loop("start").cancel()


async def terminate_child(session: Session) -> None:
    await session.wait_for_calls("wait")
    await session.loop("start").terminate("recorded")


LOOPS = {
    "loop_sequential": Recording(loop("mode: sequential")),
    "loop_parallel": Recording(loop("mode: parallel, max_in_flight: 2")),
    "loop_chunked": Recording(loop("mode: chunked, chunk_size: 3", message="{{ item | length }}")),
    "loop_of_nothing": Recording(loop("mode: parallel", items="[]")),
    "loop_where_order_limit": Recording(
        loop("mode: sequential", ', where: "{{ item != 2 }}", order_by: "{{ -item }}", limit: 2')
    ),
    "loop_with_failures": Recording(loop("mode: parallel", items=BROKEN), ends="failed"),
    "loop_failures_handled": Recording(loop("mode: sequential", items=BROKEN, remainder=REPAIR)),
    "loop_best_effort": Recording(loop("mode: sequential, policy: {failure: {mode: best_effort}}", items=BROKEN)),
    "loop_fail_fast": Recording(
        loop("mode: parallel, on_error: fail_fast", items='["wait", "wait", "broken", "d"]'),
        ends="failed",
        shows=("ACTIVITY_TASK_CANCEL_REQUESTED",),
    ),
    "loop_fail_fast_sequential": Recording(loop("mode: sequential, on_error: fail_fast", items=BROKEN), ends="failed"),
    "loop_timeout": Recording(
        loop("mode: parallel, timeout: 0.5", message="wait"), ends="failed", shows=("ACTIVITY_TASK_CANCEL_REQUESTED",)
    ),
    "loop_in_a_step_that_times_out": Recording(
        "  - step: start\n    spec: {timeout: 0.5}\n    loop: {in: [1, 2], iterator: item}\n"
        "    tool: {kind: noop, message: wait}\n",
        ends="failed",
        shows=("CHILD_WORKFLOW_EXECUTION_STARTED",),
    ),
    "loop_in_a_loop_back": Recording(BACK),
    "loops_beside_each_other": Recording(BESIDE),
    "loop_of_tasks": Recording(TASKS.replace("RETRY", RETRY).replace("JUMP", JUMP), shows=("TIMER_FIRED",)),
    "loop_cannot_begin": Recording(loop("mode: parallel, max_in_flight: \"{{ 'many' }}\""), ends="failed"),
    "loop_child_cancelled": Recording(
        loop("mode: parallel", message="wait"),
        script=cancel_child,
        ends="failed",
        shows=("WORKFLOW_EXECUTION_CANCEL_REQUESTED",),
    ),
    "loop_child_terminated": Recording(
        loop("mode: parallel", message="wait"),
        script=terminate_child,
        ends="failed",
        shows=("CHILD_WORKFLOW_EXECUTION_TERMINATED",),
    ),
}
