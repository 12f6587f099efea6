"""Recordings of playbooks that call playbooks. Each calls itself, with the workload ``inner``."""

from __future__ import annotations

from dev.histories.recording import Recording
from dev.histories.session import Session

__all__ = ["SUB_PLAYBOOKS"]

HEAD = "workload: {inner: false}\n"


def caller_and_called(message: str, more: str = "", loop: str = "") -> str:
    """Return a playbook that runs the step ``call`` as the caller, and ``work`` when it is called."""
    return f"""\
  - step: start
    next: {{arcs: [{{step: work, when: "{{{{ workload.inner }}}}"}}, {{step: call}}]}}
  - step: call
{loop}    tool: {{kind: playbook, path: tests/replay, input: {{inner: true}}{more}}}
  - step: work
    tool: {{kind: noop, message: {message}}}
  - step: end
    tool: {{kind: noop, message: end}}
"""


RETRIED = (
    ", spec: {policy: {rules: [{when: \"{{ output.status == 'error' }}\", "
    "then: {do: retry, attempts: 2, delay: 0.05}}]}}"
)
LOOP = "    loop: {in: [1, 2, 3], iterator: item, spec: {mode: parallel, max_in_flight: 2}}\n"


async def cancel_in_the_child(session: Session) -> None:
    """The child waits in a call."""
    await session.wait_for_calls("wait")
    await session.handle.cancel("recorded")


SUB_PLAYBOOKS: dict[str, Recording] = {
    "called": Recording(caller_and_called("a"), HEAD, shows=("CHILD_WORKFLOW_EXECUTION_COMPLETED",)),
    "called_and_failed": Recording(
        caller_and_called("broken", RETRIED),
        HEAD,
        ends="failed",
        shows=("CHILD_WORKFLOW_EXECUTION_FAILED", "TIMER_FIRED"),
    ),
    "called_and_cancelled": Recording(
        caller_and_called("wait"),
        HEAD,
        script=cancel_in_the_child,
        ends="cancelled",
        shows=("CHILD_WORKFLOW_EXECUTION_CANCELED",),
    ),
    "called_and_timed_out": Recording(
        caller_and_called("wait", ", timeout: 0.5"),
        HEAD,
        ends="failed",
        shows=("TIMER_FIRED", "CHILD_WORKFLOW_EXECUTION_CANCELED"),
    ),
    "called_without_waiting": Recording(
        caller_and_called("a", ", wait: false"), HEAD, shows=("CHILD_WORKFLOW_EXECUTION_STARTED",)
    ),
    "called_in_a_loop": Recording(
        caller_and_called("a", loop=LOOP), HEAD, shows=("CHILD_WORKFLOW_EXECUTION_COMPLETED",)
    ),
}
