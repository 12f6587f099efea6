"""Sends signals about waits and pauses between the workflows of one playbook.

A workflow ends, or continues as new, only when its messages have arrived: Temporal drops a message that is not sent
yet.

Temporal delivers the signals of one workflow task in any order. So a message about a subject, which is a wait or the
pause of a workflow, is sent only when the previous one about it has arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from temporalio import workflow

from noetl_temporal.control_requests import ClosedWait, ForwardedAnswer, OpenedWait, PauseNotice
from noetl_temporal.machine.commands import AnswerWait, CloseWait, OpenWait
from noetl_temporal.machine.facts import WaitClosed
from noetl_temporal.naming import ANSWER_SIGNAL, CLOSE_SIGNAL, OPEN_SIGNAL, PAUSE_SIGNAL

__all__ = ["WaitMessages"]


class WaitMessages:
    """The messages that one workflow sends. ``note`` is called with a WaitClosed for each answer that
    could not be delivered.
    """

    def __init__(self, note: Callable[[WaitClosed], None], now: Callable[[], int]) -> None:
        self._note = note
        self._now = now
        self._unsent: set[asyncio.Task[None]] = set()
        self._latest: dict[tuple[str, str], asyncio.Task[None]] = {}

    def notify_playbook(self, command: OpenWait | CloseWait) -> None:
        """Send a message from a chunk to its playbook; ignored if the playbook has ended."""
        parent, sender = workflow.info().parent, workflow.info().first_execution_run_id
        if parent is None:
            return
        if isinstance(command, OpenWait):
            self._send(parent.workflow_id, [command.wait.id], OPEN_SIGNAL, OpenedWait(sender, command.wait))
        else:
            closed_wait = ClosedWait(sender, command.wait_id, command.is_answered, command.returned, command.request)
            self._send(parent.workflow_id, [command.wait_id], CLOSE_SIGNAL, closed_wait)

    def send_answer(self, command: AnswerWait, workflow_id: str) -> None:
        """Send an answer from a playbook to a chunk; it is returned if the chunk has ended."""
        outer_ids = [f"{command.chunk_id} {wait_id}" for wait_id in command.wait_ids]
        closings = [WaitClosed(self._now(), wait_id, returned=command.answer.signal) for wait_id in outer_ids]
        self._send(
            workflow_id, command.wait_ids, ANSWER_SIGNAL, ForwardedAnswer(command.wait_ids, command.answer), closings
        )

    def send_pause(self, workflow_id: str, notice: PauseNotice) -> None:
        """Send a pause to a chunk or a called playbook; ignored if it has ended."""
        self._send(workflow_id, [PAUSE_SIGNAL], PAUSE_SIGNAL, notice)

    def _send(
        self, workflow_id: str, subjects: Sequence[str], name: str, value: Any, on_failure: Sequence[WaitClosed] = ()
    ) -> None:
        keys = [(workflow_id, subject) for subject in subjects]
        previous = [self._latest[key] for key in keys if key in self._latest]

        async def send() -> None:
            if previous:
                await workflow.wait(previous)
            await workflow.get_external_workflow_handle(workflow_id).signal(name, value)

        def on_done(task: asyncio.Task[None]) -> None:
            self._unsent.discard(task)
            for key in keys:
                if self._latest.get(key) is task:
                    del self._latest[key]
            if task.cancelled() or task.exception() is not None:
                for fact in on_failure:
                    self._note(fact)

        task = asyncio.create_task(send())
        self._unsent.add(task)
        self._latest |= dict.fromkeys(keys, task)
        task.add_done_callback(on_done)

    async def wait_until_sent(self) -> None:
        """Wait until every message has arrived, or has failed."""
        while self._unsent:
            try:
                await workflow.wait_condition(lambda: not self._unsent)
            except asyncio.CancelledError:  # a cancelled workflow still sends its messages
                continue
