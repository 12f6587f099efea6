"""Recordings of runs that wait: for a time, for signals, for people; alone and in loops."""

from __future__ import annotations

import asyncio

from dev.histories.recording import Recording
from dev.histories.session import Session
from noetl_temporal.runs import RequestRefusedError

__all__ = ["WAITS"]

PAID = """\
  - step: start
    tool: {kind: wait, signal: paid, timeout: %s, on_timeout: late}
    next: {arcs: [{step: review}]}
  - step: review
    tool: {kind: approval, form: {amount: number}}
    next: {arcs: [{step: pay, when: "{{ output.data.approved }}"}]}
  - {step: pay, tool: {kind: noop, message: pay}}
  - {step: late, tool: {kind: wait, duration: 10ms}}
"""
ITEMS = """\
  - step: start
    loop: {in: [a, b, c], iterator: name, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: wait, signal: paid, key: "{{ name }}"}
"""
FIXED = """\
  - step: start
    tool:
      kind: noop
      message: broken
      spec: {policy: {rules: [{on_status: error, then: {do: retry, wait_for: fixed, attempts: 2}}]}}
"""
ACCEPTED = ("WORKFLOW_EXECUTION_UPDATE_ACCEPTED", "WORKFLOW_EXECUTION_UPDATE_COMPLETED")
HANDED = ("SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED", "WORKFLOW_EXECUTION_SIGNALED")


async def until_waiting(session: Session, *names: str) -> None:
    async with asyncio.timeout(30):
        while sorted(wait.name for wait in await session.handle.waits()) != sorted(names):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)


async def answer_waits(session: Session) -> None:
    await until_waiting(session, "start")
    await session.handle.signal("paid", {"amount": 3})
    await until_waiting(session, "review")
    answers = await asyncio.gather(
        session.handle.approve(by="ann", form={"amount": 3}), session.handle.approve(by="bob"), return_exceptions=True
    )
    assert sum(isinstance(response, RequestRefusedError) for response in answers) == 1


async def hand_on_signal(session: Session) -> None:
    await session.handle.signal("paid", "kept", key="b")
    await until_waiting(session, "start[0]", "start[2]")
    await session.handle.signal("paid", "c", key="c")
    await session.handle.signal("paid", "a")


async def cancel_items(session: Session) -> None:
    await until_waiting(session, "start[0]", "start[1]")
    await session.handle.cancel("enough")


async def cancel_waiting(session: Session) -> None:
    await until_waiting(session, "start")
    await session.handle.cancel("enough")


async def fix(session: Session) -> None:
    await until_waiting(session, "start")
    await session.handle.signal("fixed")


WAITS: dict[str, Recording] = {
    "wait_answered": Recording(
        PAID % "1h", script=answer_waits, shows=(*ACCEPTED, "MARKER_RECORDED", "TIMER_CANCELED")
    ),
    "wait_timed_out": Recording(PAID % "10ms", shows=("TIMER_FIRED", "MARKER_RECORDED")),
    "wait_cancelled": Recording(
        PAID % "1h", script=cancel_waiting, ends="cancelled", shows=("TIMER_CANCELED", "MARKER_RECORDED")
    ),
    "wait_of_items": Recording(ITEMS, script=hand_on_signal, shows=(*ACCEPTED, *HANDED)),
    "wait_of_items_continued": Recording(
        ITEMS,
        script=hand_on_signal,
        shows=(*ACCEPTED, *HANDED, "WORKFLOW_EXECUTION_CONTINUED_AS_NEW"),
        limits={"noetl_temporal.workflows.workflow_host.SOFT_EVENTS": 10},
    ),
    "wait_of_items_cancelled": Recording(
        ITEMS, script=cancel_items, ends="cancelled", shows=("CHILD_WORKFLOW_EXECUTION_COMPLETED", *HANDED[:1])
    ),
    "wait_for_a_fix": Recording(FIXED, script=fix, ends="failed", shows=(*ACCEPTED, "MARKER_RECORDED")),
}
