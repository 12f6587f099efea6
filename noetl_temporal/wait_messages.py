"""Tells the workflows of one playbook of each other's waits and pauses, by signals between them.

A workflow ends, or continues as new, only when what it sent has arrived: Temporal drops a message that is not sent yet.

Temporal delivers signals that one workflow task sends in any order. So a message about a subject, which is a wait or
the pause of a workflow, is sent when the one before it has arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from temporalio import workflow

from noetl_temporal.control_requests import ClosedWait, HandedAnswer, OpenedWait, PauseNotice
from noetl_temporal.machine.commands import AnswerWait, CloseWait, OpenWait
from noetl_temporal.machine.events import WaitClosed
from noetl_temporal.naming import ANSWER_SIGNAL, CLOSE_SIGNAL, OPEN_SIGNAL, PAUSE_SIGNAL

__all__ = ["WaitMessages"]


class WaitMessages:
    """The messages that one workflow sends. ``note`` receives the fact of a message that could not be delivered."""

    def __init__(self, note: Callable[[WaitClosed], None], now: Callable[[], int]) -> None:
        self._note = note
        self._now = now
        self._unsent: set[asyncio.Task[None]] = set()
        self._latest: dict[tuple[str, str], asyncio.Task[None]] = {}

    def tell_playbook(self, command: OpenWait | CloseWait) -> None:
        """Send a message from a chunk to its playbook; ignored if the playbook has ended."""
        parent, sender = workflow.info().parent, workflow.info().first_execution_run_id
        if parent is None:
            return
        if isinstance(command, OpenWait):
            self._send(parent.workflow_id, command.wait.id, OPEN_SIGNAL, OpenedWait(sender, command.wait))
        else:
            closed = ClosedWait(sender, command.wait_id, command.is_answered, command.returned, command.request)
            self._send(parent.workflow_id, command.wait_id, CLOSE_SIGNAL, closed)

    def tell_chunk(self, command: AnswerWait, workflow_id: str) -> None:
        """Send an answer from a playbook to a chunk; it is returned if the chunk has ended."""
        wait_id = f"{command.chunk_id} {command.wait_id}"
        back = WaitClosed(self._now(), wait_id, returned=command.answer.signal)
        handed = HandedAnswer(command.wait_id, command.answer)
        self._send(workflow_id, command.wait_id, ANSWER_SIGNAL, handed, back)

    def tell_paused(self, workflow_id: str, notice: PauseNotice) -> None:
        """Send a pause to a chunk or a called playbook; ignored if it has ended."""
        self._send(workflow_id, PAUSE_SIGNAL, PAUSE_SIGNAL, notice)

    def _send(self, workflow_id: str, subject: str, name: str, value: Any, otherwise: WaitClosed | None = None) -> None:
        before = self._latest.get((workflow_id, subject))

        async def send() -> None:
            if before is not None:
                await workflow.wait([before])
            await workflow.get_external_workflow_handle(workflow_id).signal(name, value)

        def sent(task: asyncio.Task[None]) -> None:
            self._unsent.discard(task)
            if self._latest.get((workflow_id, subject)) is task:
                del self._latest[workflow_id, subject]
            has_failed = task.cancelled() or task.exception() is not None
            if has_failed and otherwise is not None:
                self._note(otherwise)

        task = asyncio.create_task(send())
        self._unsent.add(task)
        self._latest[workflow_id, subject] = task
        task.add_done_callback(sent)

    async def sent(self) -> None:
        """Wait until all that was sent has arrived, or never will."""
        while self._unsent:
            try:
                await workflow.wait_condition(lambda: not self._unsent)
            except asyncio.CancelledError:  # a workflow that is cancelled sends what it has to all the same
                continue
