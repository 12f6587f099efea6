"""Recordings of runs that people pause and resume, and of failed steps that they retry and skip."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dev.histories.recording import Recording
from dev.histories.session import Session
from noetl_temporal.messages.control_requests import OpenWaits

__all__ = ["PAUSES"]

STEPS = """\
  - step: start
    timeout: 1h
    tool: {kind: noop, message: gate}
    next: {arcs: [{step: after}]}
  - {step: after, tool: {kind: noop, message: after}}
"""
LOOP = """\
  - step: start
    loop: {in: [gate, b, c], iterator: name, spec: {mode: sequential}}
    tool: {kind: noop, message: "{{ name }}"}
"""
HELD = """\
  - step: start
    on_failure: hold
    loop: {in: [a, broken], iterator: name, spec: {mode: parallel}}
    tool: {kind: noop, message: "{{ name }}"}
"""
ACCEPTED = ("WORKFLOW_EXECUTION_UPDATE_ACCEPTED", "WORKFLOW_EXECUTION_UPDATE_COMPLETED")


async def until(session: Session, holds: Callable[[OpenWaits], bool]) -> None:
    async with asyncio.timeout(30):
        while not holds(await session.handle.suspensions()):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.05)


async def pause(session: Session) -> None:
    await session.wait_for_calls("gate")
    await session.handle.pause(by="ann", reason="recorded")
    await until(session, lambda status: status.pause is not None)
    await asyncio.sleep(0.5)  # until a loop has received it
    session.gate.set()
    await asyncio.sleep(0.5)
    await session.handle.resume(by="bob")


async def retry_and_skip(session: Session) -> None:
    await until(session, lambda status: bool(status.held))
    await session.handle.retry(by="ann")
    await until(session, lambda status: [held.run for held in status.held] == ["start#2"])
    await session.handle.skip("start", {"n": 1}, by="ann")


PAUSES: dict[str, Recording] = {
    "paused": Recording(STEPS, script=pause, shows=(*ACCEPTED, "TIMER_CANCELED", "MARKER_RECORDED")),
    "paused_continued": Recording(
        STEPS,
        script=pause,
        shows=(*ACCEPTED, "WORKFLOW_EXECUTION_CONTINUED_AS_NEW"),
        limits={"noetl_temporal.workflows.workflow_host.SOFT_EVENTS": 10},
    ),
    "paused_loop": Recording(LOOP, script=pause, shows=(*ACCEPTED, "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED")),
    "held": Recording(HELD, script=retry_and_skip, shows=(*ACCEPTED, "TIMER_CANCELED")),
}
