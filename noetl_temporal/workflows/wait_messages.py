"""Sends signals about waits and pauses between the workflows of one playbook.

A workflow ends, or continues as new, only after its messages have arrived: Temporal would drop those that were not sent
yet.

Temporal delivers the signals of one workflow task in any order. So a message about a subject, which is a wait or the
pause of a workflow, is sent only after the previous message about the same subject has arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from temporalio import workflow

from noetl_temporal.machine.commands import AnswerWait, CloseWait, OpenWait
from noetl_temporal.machine.facts import WaitClosed
from noetl_temporal.messages.control_requests import ClosedWait, ForwardedAnswer, OpenedWait, PauseNotice
from noetl_temporal.naming import ANSWER_SIGNAL, CLOSE_SIGNAL, OPEN_SIGNAL, PAUSE_SIGNAL

__all__ = ["WaitMessages"]


class WaitMessages:
    """The messages that one workflow sends. ``add_fact`` is called with a WaitClosed for each answer that could not be
    delivered. ``now`` returns milliseconds since the epoch.
    """

    def __init__(self, add_fact: Callable[[WaitClosed], None], now: Callable[[], int]) -> None:
        self._add_fact = add_fact
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
            closed_wait = ClosedWait(sender, command.wait_id, command.is_answered, command.returned, command.request_id)
            self._send(parent.workflow_id, [command.wait_id], CLOSE_SIGNAL, closed_wait)

    def send_answer(self, command: AnswerWait, workflow_id: str) -> None:
        """Send an answer from a playbook to a chunk; it is returned if the chunk has ended."""
        playbook_wait_ids = [f"{command.chunk_id} {wait_id}" for wait_id in command.wait_ids]
        closed_facts = [
            WaitClosed(self._now(), wait_id, returned=command.answer.signal) for wait_id in playbook_wait_ids
        ]
        forwarded_answer = ForwardedAnswer(command.wait_ids, command.answer)
        self._send(workflow_id, command.wait_ids, ANSWER_SIGNAL, forwarded_answer, closed_facts)

    def send_pause(self, workflow_id: str, notice: PauseNotice) -> None:
        """Send a pause to a chunk or a called playbook; ignored if it has ended."""
        self._send(workflow_id, [PAUSE_SIGNAL], PAUSE_SIGNAL, notice)

    def _send(
        self,
        workflow_id: str,
        subjects: Sequence[str],
        signal_name: str,
        value: Any,
        facts_on_failure: Sequence[WaitClosed] = (),
    ) -> None:
        """Send a signal, after earlier ones about the same subjects have arrived. If it cannot be delivered, the facts
        are added.
        """
        keys = [(workflow_id, subject) for subject in subjects]
        previous = [self._latest[key] for key in keys if key in self._latest]

        async def send() -> None:
            if previous:
                await workflow.wait(previous)
            await workflow.get_external_workflow_handle(workflow_id).signal(signal_name, value)

        def on_done(task: asyncio.Task[None]) -> None:
            self._unsent.discard(task)
            for key in keys:
                if self._latest.get(key) is task:
                    del self._latest[key]
            if task.cancelled() or task.exception() is not None:
                for fact in facts_on_failure:
                    self._add_fact(fact)

        task = asyncio.create_task(send())
        self._unsent.add(task)
        self._latest |= dict.fromkeys(keys, task)
        task.add_done_callback(on_done)

    async def wait_until_sent(self) -> None:
        """Wait until every message has arrived, or has failed."""
        while self._unsent:
            try:
                await workflow.wait_condition(lambda: not self._unsent)
            except asyncio.CancelledError:  # a cancelled workflow sends its messages, too
                continue
