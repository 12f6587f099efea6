"""Waits in random playbooks, the signals and decisions that they get, and messages between a playbook and its chunks.

Waits have a random generator of their own, so that playbooks without waits do not change.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from noetl_temporal.machine.commands import AnswerWait, CloseWait, OpenWait
from noetl_temporal.machine.facts import Answered, Decided, Signalled, WaitClosed, WaitOpened
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.waits.refusals import decision_refusal, signal_refusal
from noetl_temporal.machine.waits.wait import Signal

if TYPE_CHECKING:
    from dev.simulate.host import Host

__all__ = ["Mailbox", "People", "with_waits"]

NAMES = ("paid", "shipped")
KEYS = (None, None, "a", "b")
PROBABILITY = 0.2
"""The probability that a playbook has waits."""


# ---- playbooks -------------------------------------------------------------------------------------------------------


def with_waits(text: str, seed: int) -> str:
    """Return the playbook with waits instead of some of its calls."""
    rng = random.Random(f"{seed}/waits")
    if rng.random() >= PROBABILITY or not text.startswith("{"):
        return text
    document: dict[str, Any] = json.loads(text)
    steps: list[dict[str, Any]] = document.get("workflow", [])
    for step in steps:
        if "frame" not in str(step.get("loop")) and isinstance(step.get("tool"), list):
            tasks: list[dict[str, Any]] = step["tool"]
            step["tool"] = [_wait(task, rng) if rng.random() < 0.4 else _with_signals(task, rng) for task in tasks]
    return json.dumps(document, ensure_ascii=False, indent=1)


def _wait(task: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    kept_keys: dict[str, Any] = {key: task[key] for key in ("name", "set", "guard") if key in task}
    policy = task.get("spec", {}).get("policy")
    spec = {"spec": {"policy": policy}} if policy is not None and rng.random() < 0.5 else {}
    limit = {"timeout": rng.choice((0, 0.5, 5, 60))}
    match rng.choice(("time", "signal", "signal", "approval")):
        case "time":
            limit = limit if rng.random() < 0.3 else {}
            return {**kept_keys, **spec, **limit, "kind": "wait", "duration": rng.choice((0, 0.2, 20, "{{ nobody }}"))}
        case "signal":
            key = rng.choice(KEYS)
            key_option = {} if key is None else {"key": key}
            return {**kept_keys, **spec, **limit, **key_option, "kind": "wait", "signal": rng.choice(NAMES)}
        case _:
            return {**kept_keys, **spec, **limit, "kind": "approval", "form": {"amount": "number"}}


def _with_signals(task: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """Return the task with some of its retries waiting for a signal."""
    for rule in task.get("spec", {}).get("policy", {}).get("rules", []):
        then = (rule.get("else") or rule).get("then", {})
        if then.get("do") == "retry" and rng.random() < 0.3:
            then |= {"wait_for": rng.choice(NAMES), "timeout": rng.choice((0.5, 30))}
    return task


# ---- answers ---------------------------------------------------------------------------------------------------------


class People:
    """The people who send signals and decide about approvals. They send only requests that the validators accept."""

    def __init__(self, seed: int, later: Callable[[int, Callable[[], None]], object]) -> None:
        self._rng = random.Random(f"{seed}/people")
        self._later = later
        self._requests = 0

    def schedule_answers(self, host: Host) -> None:
        """Answer the run at random times, if it waits at all."""
        for _ in range(self._rng.choice((0, 3, 10, 30))):
            act = self._rng.choice((self._signal, self._signal, self._decide))
            self._later(self._rng.randint(0, self._rng.choice((200, 5_000, 90_000))), partial(act, host))

    def _signal(self, host: Host) -> None:
        machine = host.machine
        signal = Signal(self._rng.choice(NAMES), self._rng.randint(0, 99), self._rng.choice(KEYS))
        if host.is_over or not isinstance(machine, PlaybookMachine):
            return
        if signal_refusal(machine.graph, machine.state, signal, []) is None:
            host.feed(Signalled(host.world.now, self._id(), signal))

    def _decide(self, host: Host) -> None:
        machine = host.machine
        approvals = [wait for wait in machine.state.waits.values() if wait.kind == "approval"]
        if host.is_over or not approvals or not isinstance(machine, PlaybookMachine):
            return
        wait = self._rng.choice(approvals)
        decision = Decided(host.world.now, self._id(), wait.id, self._rng.random() < 0.5, "ann", form={"amount": 3})
        if decision_refusal(machine.state, decision, []) is None:
            host.feed(decision)

    def _id(self) -> int:
        """Return the id of a request, sometimes that of an earlier one, which repeats it."""
        self._requests += self._rng.random() < 0.9 or self._requests == 0
        return self._requests


# ---- messages --------------------------------------------------------------------------------------------------------


class Mailbox:
    """The messages between a chunk and its playbook, which arrive in the order in which they were sent."""

    def __init__(self, parent: Host, chunk: Host) -> None:
        self._parent, self._chunk = parent, chunk
        self._to_playbook: deque[OpenWait | CloseWait] = deque()
        self._to_chunk: deque[AnswerWait] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether all messages have arrived, so that the chunk may end."""
        return not (self._to_playbook or self._to_chunk)

    def send_to_playbook(self, command: OpenWait | CloseWait) -> None:
        """Send a message of the chunk to its playbook."""
        self._to_playbook.append(command)
        self._deliver_later(self._deliver_to_playbook)

    def send_to_chunk(self, command: AnswerWait) -> None:
        """Send an answer of the playbook to the chunk."""
        self._to_chunk.append(command)
        self._deliver_later(self._deliver_to_chunk)

    def _deliver_later(self, deliver: Callable[[], None]) -> None:
        self._parent.world.later(self._parent.world.draw(0, 40), deliver)

    def _deliver_to_playbook(self) -> None:
        match self._to_playbook.popleft():
            case OpenWait(wait):
                self._parent.feed(WaitOpened(self._parent.world.now, wait))
            case CloseWait(wait_id, is_answered, returned, request):
                self._parent.feed(WaitClosed(self._parent.world.now, wait_id, is_answered, returned, request))

    def _deliver_to_chunk(self) -> None:
        """Deliver an answer to the chunk, or return it to the playbook if the chunk has ended."""
        command = self._to_chunk.popleft()
        if not self._chunk.is_over and self._chunk.trace.turns:
            self._chunk.feed(Answered(self._parent.world.now, command.wait_ids, command.answer))
            return
        for wait_id in command.wait_ids:
            returned_id = f"{command.chunk_id} {wait_id}"
            self._parent.feed(WaitClosed(self._parent.world.now, returned_id, returned=command.answer.signal))
