"""Waits in random playbooks, the signals and decisions that they get, and messages between a playbook and its chunks.

They have random numbers of their own, so that playbooks without waits do not change.
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
from noetl_temporal.machine.playbook import Machine
from noetl_temporal.machine.waits.refusals import decision_problem, signal_problem
from noetl_temporal.machine.waits.wait import Signal

if TYPE_CHECKING:
    from dev.simulate.host import Host

__all__ = ["Mail", "People", "with_waits"]

NAMES = ("paid", "shipped")
KEYS = (None, None, "a", "b")
LIKELY = 0.2
"""The probability that a playbook has waits."""


# ---- playbooks -------------------------------------------------------------------------------------------------------


def with_waits(text: str, seed: int) -> str:
    """The playbook with waits in the place of some of its calls."""
    chance = random.Random(f"{seed}/waits")
    if chance.random() >= LIKELY or not text.startswith("{"):
        return text
    made: dict[str, Any] = json.loads(text)
    steps: list[dict[str, Any]] = made.get("workflow", [])
    for step in steps:
        if "frame" not in str(step.get("loop")) and isinstance(step.get("tool"), list):
            tasks: list[dict[str, Any]] = step["tool"]
            step["tool"] = [_wait(task, chance) if chance.random() < 0.4 else _retried(task, chance) for task in tasks]
    return json.dumps(made, ensure_ascii=False, indent=1)


def _wait(task: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    kept: dict[str, Any] = {key: task[key] for key in ("name", "set", "guard") if key in task}
    policy = task.get("spec", {}).get("policy")
    spec = {"spec": {"policy": policy}} if policy is not None and chance.random() < 0.5 else {}
    limit = {"timeout": chance.choice((0, 0.5, 5, 60))}
    match chance.choice(("time", "signal", "signal", "approval")):
        case "time":
            limit = limit if chance.random() < 0.3 else {}
            return {**kept, **spec, **limit, "kind": "wait", "duration": chance.choice((0, 0.2, 20, "{{ nobody }}"))}
        case "signal":
            key = chance.choice(KEYS)
            keyed = {} if key is None else {"key": key}
            return {**kept, **spec, **limit, **keyed, "kind": "wait", "signal": chance.choice(NAMES)}
        case _:
            return {**kept, **spec, **limit, "kind": "approval", "form": {"amount": "number"}}


def _retried(task: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """Some retries wait for a signal."""
    for rule in task.get("spec", {}).get("policy", {}).get("rules", []):
        then = (rule.get("else") or rule).get("then", {})
        if then.get("do") == "retry" and chance.random() < 0.3:
            then |= {"wait_for": chance.choice(NAMES), "timeout": chance.choice((0.5, 30))}
    return task


# ---- who answers -----------------------------------------------------------------------------------------------------


class People:
    """The people who send signals and decide. Requests are those that a validator accepts."""

    def __init__(self, seed: int, later: Callable[[int, Callable[[], None]], object]) -> None:
        self._chance = random.Random(f"{seed}/people")
        self._later = later
        self._requests = 0

    def schedule_answers(self, host: Host) -> None:
        """Answer the run at random times, if it waits at all."""
        for _ in range(self._chance.choice((0, 3, 10, 30))):
            act = self._chance.choice((self._signal, self._signal, self._decide))
            self._later(self._chance.randint(0, self._chance.choice((200, 5_000, 90_000))), partial(act, host))

    def _signal(self, host: Host) -> None:
        machine = host.machine
        signal = Signal(self._chance.choice(NAMES), self._chance.randint(0, 99), self._chance.choice(KEYS))
        if host.is_over or not isinstance(machine, Machine):
            return
        if signal_problem(machine.graph, machine.state, signal, []) is None:
            host.feed(Signalled(host.world.now, self._id(), signal))

    def _decide(self, host: Host) -> None:
        machine = host.machine
        approvals = [wait for wait in machine.state.waits.values() if wait.kind == "approval"]
        if host.is_over or not approvals or not isinstance(machine, Machine):
            return
        wait = self._chance.choice(approvals)
        decided = Decided(host.world.now, self._id(), wait.id, self._chance.random() < 0.5, "ann", form={"amount": 3})
        if decision_problem(machine.state, decided, []) is None:
            host.feed(decided)

    def _id(self) -> int:
        """Return the id of a request, sometimes that of an earlier one, which repeats it."""
        self._requests += self._chance.random() < 0.9 or self._requests == 0
        return self._requests


# ---- messages --------------------------------------------------------------------------------------------------------


class Mail:
    """The messages between a chunk and its playbook, in order; ``is_empty`` when all has arrived."""

    def __init__(self, parent: Host, chunk: Host) -> None:
        self._parent, self._chunk = parent, chunk
        self._up: deque[OpenWait | CloseWait] = deque()
        self._down: deque[AnswerWait] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether the chunk may end."""
        return not (self._up or self._down)

    def notify_playbook(self, command: OpenWait | CloseWait) -> None:
        """From the chunk."""
        self._up.append(command)
        self._after(self._deliver_up)

    def send_answer(self, command: AnswerWait) -> None:
        """From the playbook."""
        self._down.append(command)
        self._after(self._deliver_down)

    def _after(self, deliver: Callable[[], None]) -> None:
        self._parent.world.later(self._parent.world.draw(0, 40), deliver)

    def _deliver_up(self) -> None:
        match self._up.popleft():
            case OpenWait(wait):
                self._parent.feed(WaitOpened(self._parent.world.now, wait))
            case CloseWait(wait_id, is_answered, returned, request):
                self._parent.feed(WaitClosed(self._parent.world.now, wait_id, is_answered, returned, request))

    def _deliver_down(self) -> None:
        """Deliver an answer to the chunk; one that has ended returns it."""
        command = self._down.popleft()
        if not self._chunk.is_over and self._chunk.trace.turns:
            self._chunk.feed(Answered(self._parent.world.now, command.wait_ids, command.answer))
            return
        for wait_id in command.wait_ids:
            back = f"{command.chunk_id} {wait_id}"
            self._parent.feed(WaitClosed(self._parent.world.now, back, returned=command.answer.signal))
