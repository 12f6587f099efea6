"""Recordings of runs that are stopped from outside, or whose workers stop."""

from __future__ import annotations

from datetime import timedelta

from dev.histories.recording import Recording, Script
from dev.histories.session import Session, block_process

__all__ = ["STOPS"]

CLEANUP = "  - step: end\n    spec: {timeout: %s}\n    tool: {kind: noop, message: %s}\n"
CLEAN = CLEANUP % ("60", "clean")
ONE_CALL = "  - {step: start, tool: {kind: noop, message: %s}}\n"
THREE_CALLS = """\
  - {step: start, tool: {kind: noop, message: slow}, next: {arcs: [{step: second}]}}
  - {step: second, tool: {kind: noop, message: slow}, next: {arcs: [{step: third}]}}
  - {step: third, tool: {kind: noop, message: slow}, next: {arcs: [{step: end}]}}
"""
DELAYED = """\
  - step: start
    tool:
      kind: noop
      name: poll
      message: poll
      spec: {policy: {rules: [{when: "{{ true }}", then: {do: %s, delay: 100}}]}}
"""
PAGES = """\
  - step: start
    tool: {kind: noop, message: page, spec: {policy: {rules: [{when: "{{ true }}", then: {do: again, attempts: 900}}]}}}
"""
LOOP = """\
  - step: start
    loop: {in: [1, 2, 3], iterator: item, spec: {mode: %s}}
    tool: {kind: noop, message: wait}
"""
ONCE = "  - {step: start, tool: {kind: noop, message: %s, spec: {idempotent: false}}}\n"
CANCELLED = ("WORKFLOW_EXECUTION_CANCEL_REQUESTED",)
LOST = {"noetl_temporal.workflows.performer.HEARTBEAT_TIMEOUT": timedelta(seconds=1)}


async def cancel(session: Session) -> None:
    await session.handle.cancel("enough")


def cancel_after(message: str, count: int = 1) -> Script:
    async def script(session: Session) -> None:
        await session.wait_for_calls(message, count)
        await cancel(session)

    return script


async def cancel_between_calls(session: Session) -> None:
    """Cancel while no call is in flight, because the workers of the tools have stopped."""
    await session.wait_for_calls("slow")
    await session.stop_workers()
    await cancel(session)
    await session.wait_for_event("ACTIVITY_TASK_CANCEL_REQUESTED")
    await session.start_workers()


async def cancel_in_a_delay(session: Session) -> None:
    await session.wait_for_event("TIMER_STARTED")
    await cancel(session)


async def cancel_in_a_retry(session: Session) -> None:
    await session.wait_for_calls("down", 2)
    await cancel(session)


async def cancel_twice(session: Session) -> None:
    await session.wait_for_calls("gate")
    await cancel(session)
    await session.wait_for_calls("wait")
    await cancel(session)


async def signal(session: Session) -> None:
    await session.wait_for_calls("wait")
    await session.handle.workflow.signal("cancel", "enough")


async def cancel_as_the_call_ends(session: Session) -> None:
    """Cancel just before the call succeeds."""
    await session.wait_for_calls("gate")
    await cancel(session)
    session.gate.set()


async def terminate(session: Session) -> None:
    await session.wait_for_calls("wait")
    await session.handle.terminate("enough")


async def cancel_a_lost_call(session: Session) -> None:
    await session.wait_for_calls("wait")
    await cancel(session)
    await session.wait_for_event("ACTIVITY_TASK_CANCEL_REQUESTED")
    block_process()


async def deploy(session: Session) -> None:
    await session.wait_for_calls("gate")
    await session.stop_workers()
    session.gate.set()
    await session.start_workers()


async def reset_in_a_loop(session: Session) -> None:
    await session.wait_for_calls("gate", 2)
    await session.reset(await session.wait_for_event("WORKFLOW_TASK_COMPLETED"))
    session.gate.set()


async def reset_at_the_end(session: Session) -> None:
    event_id = await session.wait_for_event("WORKFLOW_TASK_COMPLETED")
    await session.handle.result()
    await session.reset(event_id)


STOPS = {
    "cancel_before_any_call": Recording(
        THREE_CALLS + CLEAN,
        script=cancel,
        ends="cancelled",
        first=("WORKFLOW_EXECUTION_CANCEL_REQUESTED", "ACTIVITY_TASK_SCHEDULED"),
        early=True,
    ),
    "cancel_in_a_call": Recording(
        ONE_CALL % "wait" + CLEAN, script=cancel_after("wait"), ends="cancelled", shows=CANCELLED
    ),
    "cancel_in_the_second_call": Recording(
        THREE_CALLS + CLEAN, script=cancel_after("slow", 2), ends="cancelled", shows=CANCELLED
    ),
    "cancel_without_workers": Recording(
        THREE_CALLS + CLEAN, script=cancel_between_calls, ends="cancelled", shows=CANCELLED
    ),
    "cancel_as_the_call_ends": Recording(
        ONE_CALL % "gate" + CLEAN,
        script=cancel_as_the_call_ends,
        ends="cancelled",
        first=("WORKFLOW_EXECUTION_CANCEL_REQUESTED", "ACTIVITY_TASK_COMPLETED"),
    ),
    "cancel_in_a_delayed_jump": Recording(
        DELAYED % "jump, to: poll" + CLEAN, script=cancel_in_a_delay, ends="cancelled", shows=("TIMER_CANCELED",)
    ),
    "cancel_between_pages": Recording(
        DELAYED % "again, attempts: 9" + CLEAN, script=cancel_in_a_delay, ends="cancelled", shows=("TIMER_CANCELED",)
    ),
    "cancel_in_pages": Recording(PAGES + CLEAN, script=cancel_after("page", 5), ends="cancelled", shows=CANCELLED),
    "cancel_in_a_retry": Recording(
        "  - step: start\n    tool: {kind: noop, message: down, spec: {policy: {rules: "
        '[{when: "{{ true }}", then: {do: retry, attempts: 90, delay: 0.3}}]}}}\n',
        script=cancel_in_a_retry,
        ends="cancelled",
        shows=CANCELLED,
    ),
    "cancel_in_a_loop": Recording(
        LOOP % "parallel" + CLEAN, script=cancel_after("wait", 3), ends="cancelled", shows=CANCELLED
    ),
    "cancel_in_a_sequential_loop": Recording(
        LOOP % "sequential" + CLEAN, script=cancel_after("wait"), ends="cancelled", shows=CANCELLED
    ),
    "cancel_without_cleanup": Recording(
        ONE_CALL % "wait", script=cancel_after("wait"), ends="cancelled", shows=CANCELLED
    ),
    "cancel_twice": Recording(
        ONE_CALL % "gate" + CLEANUP % ("60", "wait"),
        script=cancel_twice,
        ends="cancelled",
        shows=("WORKFLOW_EXECUTION_SIGNALED",),
    ),
    "cancel_by_signal": Recording(
        ONE_CALL % "wait" + CLEAN, script=signal, ends="cancelled", shows=("WORKFLOW_EXECUTION_SIGNALED",)
    ),
    "cleanup_times_out": Recording(
        ONE_CALL % "gate" + CLEANUP % ("0.5", "wait"),
        script=cancel_after("gate"),
        ends="cancelled",
        shows=("TIMER_FIRED",),
    ),
    "cleanup_fails": Recording(
        ONE_CALL % "wait" + CLEANUP % ("60", "broken"), script=cancel_after("wait"), ends="cancelled", shows=CANCELLED
    ),
    "terminated": Recording(
        ONE_CALL % "wait" + CLEAN, script=terminate, ends="terminated", shows=("WORKFLOW_EXECUTION_TERMINATED",)
    ),
    "terminated_in_a_loop": Recording(
        LOOP % "parallel", script=terminate, ends="terminated", shows=("WORKFLOW_EXECUTION_TERMINATED",)
    ),
    "deploy": Recording(ONE_CALL % "gate", script=deploy),
    "deploy_in_a_call_made_once": Recording(ONCE % "gate", script=deploy, ends="failed"),
    "lost_worker": Recording(ONE_CALL % "lost", limits=LOST, alone=True),
    "lost_worker_in_a_call_made_once": Recording(ONCE % "lost", limits=LOST, ends="failed", alone=True),
    "cancel_of_a_lost_call": Recording(
        ONE_CALL % "wait" + CLEAN,
        script=cancel_a_lost_call,
        limits=LOST,
        ends="cancelled",
        shows=("ACTIVITY_TASK_TIMED_OUT",),
        alone=True,
    ),
    "reset": Recording(THREE_CALLS, script=reset_at_the_end, shows=("WORKFLOW_TASK_FAILED",)),
    "reset_in_a_loop": Recording(
        LOOP.replace("wait", "gate") % "parallel", script=reset_in_a_loop, shows=("WORKFLOW_TASK_FAILED",)
    ),
}
