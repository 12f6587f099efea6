"""The part of a playbook's machine that receives signals and decisions, and passes them to waits.

This includes the waits of loop items: a chunk reports each wait that opens or closes, and the playbook sends it the
answer. A wait may time out or stop while its answer is being sent: then the chunk returns the signal, and the next wait
gets it. A signal is returned only once, so a repeated message of a chunk does not create a signal.

After a reset, Temporal delivers the signals that came after the point of the reset once more. One of them may have
ended a wait of a chunk that is still running: the chunk reports the signal that ended its wait, so that the same signal
does not end another wait as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from noetl_compiler.language.timestamps import format_timestamp
from noetl_temporal.machine.commands import AnswerWait
from noetl_temporal.machine.engine import Engine
from noetl_temporal.machine.facts import Decided, Fact, Signalled, WaitClosed, WaitOpened
from noetl_temporal.machine.state import PlaybookState, StepRun
from noetl_temporal.machine.tasks.waits import WaitEnd
from noetl_temporal.machine.waits.matching import matching_wait, take_queued
from noetl_temporal.machine.waits.refusals import is_repeated, remember_request
from noetl_temporal.machine.waits.wait import Answer, Signal, Wait

__all__ = ["Answering"]


class Answering(Engine[PlaybookState, StepRun]):
    """An engine whose waits end by signals and decisions."""

    def _apply_request(self, fact: Fact) -> None:
        match fact:
            case Signalled():
                self._apply_signal(fact)
            case Decided():
                self._apply_decision(fact)
            case WaitOpened(_, wait):
                self._wait_of_chunk_opened(wait)
            case WaitClosed():
                self._wait_of_chunk_closed(fact)
            case _:
                super()._apply_request(fact)

    def _wait_of_chunk_opened(self, wait: Wait) -> None:
        """Record a wait that a chunk has opened. A chunk that continues as new reports its waits again, including one
        whose answer is being sent.
        """
        is_known = wait.id in self.state.waits or wait.id in self.state.sent_answers
        if not is_known and self._is_in_flight(wait):
            self.state.waits[wait.id] = wait
            self._adjust_if_held(wait)
            self._wait_opened(wait)

    def _wait_of_chunk_closed(self, fact: WaitClosed) -> None:
        wait = self.state.waits.get(fact.wait_id)
        if wait is not None and wait.chunk:
            self._remove_wait(wait)
        if fact.request_id and not is_repeated(fact.request_id, self.state, ()):
            self.state.used_signals.append(fact.request_id)
        answer = self.state.sent_answers.get(fact.wait_id)
        if answer is None or not (fact.is_answered or fact.returned is not None or answer.signal is None):
            return  # the answer is in transit, and will be returned
        del self.state.sent_answers[fact.wait_id]
        if answer.signal is not None and not fact.is_answered:
            self._deliver_or_queue(answer.signal, first=True)

    def _forget_waits(self, chunk_id: str) -> None:
        """Remove the waits of a chunk that has ended."""
        for wait in [entry for entry in self.state.waits.values() if entry.chunk == chunk_id]:
            self._remove_wait(wait)

    def _remove_wait(self, wait: Wait) -> None:
        """Remove a wait of a chunk."""
        del self.state.waits[wait.id]
        self._adjust_if_held(wait)

    def _adjust_if_held(self, wait: Wait) -> None:
        """Suspend or resume the timeouts of runs that contain a held step, if the wait is for that step."""
        if wait.kind == "held":
            self._adjust_deadlines()

    def _is_in_flight(self, wait: Wait) -> bool:
        pending = self.state.pending.get(wait.chunk)
        return pending is not None and not pending.is_cancelled

    def _apply_signal(self, fact: Signalled) -> None:
        if is_repeated(fact.request_id, self.state, ()):
            return
        remember_request(fact.request_id, self.state)
        parent, signal = self.state.workflow_id, replace(fact.signal, request_id=fact.request_id)
        self._journal.emit("signal.received", signal.name, "signal", "COMPLETED", parent=parent, key=signal.key)
        if signal.request_id in self.state.used_signals:
            self.state.used_signals.remove(signal.request_id)
        else:
            self._deliver_or_queue(signal)

    def _deliver_or_queue(self, signal: Signal, *, first: bool = False) -> None:
        """Pass the signal to the wait that it ends, or queue it; ``first``: before the other queued ones."""
        wait = matching_wait(signal, self.state.waits.values())
        if wait is not None:
            self._answer(wait, Answer(signal.data, signal))
            return
        queue = self.state.queued_signals.setdefault(signal.name, [])
        queue.insert(0 if first else len(queue), signal)

    def _apply_decision(self, fact: Decided) -> None:
        """Apply a decision, unless its wait has ended."""
        wait = self.state.waits.get(fact.wait_id)
        if wait is None or is_repeated(fact.request_id, self.state, ()):
            return
        remember_request(fact.request_id, self.state)
        form = {**dict.fromkeys(wait.form), **fact.form}
        result = {"approved": fact.approved, "by": fact.by, "at": format_timestamp(fact.at), "reason": fact.reason}
        self._answer(wait, Answer({**result, "form": form}))

    def _answer(self, wait: Wait, answer: Answer) -> None:
        if wait.chunk:
            self._send_answer(wait.chunk, [wait], answer)
        else:
            self._apply_answer(wait, answer)

    def _send_answer(self, chunk: str, waits: Sequence[Wait], answer: Answer) -> None:
        """Send the answer to waits of a chunk."""
        for wait in waits:
            del self.state.waits[wait.id]
            self.state.sent_answers[wait.id] = answer
        if any(wait.kind == "held" for wait in waits):
            self._adjust_deadlines()
        self._journal.add(AnswerWait(chunk, tuple(wait.id_in_chunk for wait in waits), answer))

    def _wait_opened(self, wait: Wait) -> None:
        signal = take_queued(self.state.queued_signals, wait) if wait.signal else None
        if signal is not None:
            self._answer(wait, Answer(signal.data, signal))

    def _wait_closed(self, wait: Wait, ending: WaitEnd) -> None:
        """Nothing to report: the wait belongs to this machine."""
