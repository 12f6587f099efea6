"""What people and programs send to a run in a test: when each request is due, and the fact that it makes.

A request for which the run has to wait first is sent as soon as nothing else is to be done, so that it is the same in
every run. Whatever else waits then may be answered in the same way: of several that are due the first in the test comes
first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from noetl_compiler.playbook_test_requests import UNAWAITED, Request
from noetl_temporal.control_requests import OpenWaits
from noetl_temporal.machine.control import (
    RefusedError,
    chosen_held,
    pause_problem,
    resume_problem,
    retry_problem,
    skip_problem,
)
from noetl_temporal.machine.events import (
    CancelRequested,
    Decided,
    Event,
    PauseRequested,
    RetryRequested,
    Signalled,
    SkipRequested,
    UnpauseRequested,
)
from noetl_temporal.machine.held_steps import HeldStep
from noetl_temporal.machine.playbook import Machine
from noetl_temporal.machine.waits.refusals import decision_problem, signal_problem
from noetl_temporal.machine.waits.wait import Signal, Wait

__all__ = ["Due", "Refusal", "Requests", "Situation", "fact_of", "name_of_held", "situation_of"]


class Due(NamedTuple):
    """A request to be sent now; ``target`` is the id of the wait or held run that it is for, where it is known."""

    number: int
    request: Request
    target: str = ""


class Refusal(NamedTuple):
    """A request that the run has refused, and why."""

    request: Request
    why: str


@dataclass(frozen=True)
class Situation:
    """The state of a run that decides whether a request is due.

    ``seconds`` since its start; ``is_busy`` while calls are in progress.
    """

    standing: OpenWaits
    started: Collection[str]
    is_busy: bool
    seconds: float


@dataclass
class Requests:
    """The requests of a test: those still to be sent, those that the run refused, and the signals that were sent."""

    left: list[Request]
    signals: list[Request] = field(default_factory=list[Request])
    refused: list[Refusal] = field(default_factory=list[Refusal])
    _held_back: list[asyncio.Future[None]] = field(default_factory=list["asyncio.Future[None]"])
    _answered: set[str] = field(default_factory=set[str])
    _number: int = 0

    def first(self) -> Iterator[Due]:
        """Yield the requests that are sent when the run starts."""
        for request in [request for request in self.left if request.is_first]:
            yield self._taken(request, "")

    def moments(self) -> list[float]:
        """The seconds after the start at which requests are due."""
        return sorted({moment.at for moment in self.left if moment.at is not None})

    def due(self, situation: Situation) -> Due | None:
        """The first request that is due, which is then sent."""
        for request in self.left:
            target = self._target(request, situation)
            if target is not None:
                return self._taken(request, target)
        return None

    def refuse(self, request: Request, why: str) -> None:
        """The run has refused it."""
        self.refused.append(Refusal(request, why))

    async def sent_before(self, step: str) -> None:
        """Wait until all requests are sent that must be sent before a call of the step ends."""
        while any(request.is_first or (request.do in UNAWAITED and _is_for(request, step)) for request in self.left):
            sent = asyncio.get_running_loop().create_future()
            self._held_back.append(sent)
            await sent

    @property
    def held_back(self) -> int:
        """The calls that wait in ``sent_before``."""
        return sum(not future.done() for future in self._held_back)

    def accepted(self) -> None:
        """The accepted request has been sent: delayed calls may end."""
        held_back, self._held_back = self._held_back, []
        for future in held_back:
            if not future.done():
                future.set_result(None)

    def _taken(self, request: Request, target: str) -> Due:
        self.left.remove(request)
        if request.do == "signal":
            self.signals.append(request)
        if target:
            self._answered.add(target)
        self._number += 1
        return Due(self._number, request, target)

    def _target(self, request: Request, situation: Situation) -> str | None:
        """What the request is for, None while it is not due."""
        if request.at is not None:
            return None if situation.seconds < request.at else self._waited(request, situation.standing) or ""
        if request.do in UNAWAITED:
            return "" if request.step is not None and request.step.text in situation.started else None
        if request.do == "resume":
            return "" if situation.standing.pause is not None and not situation.is_busy else None
        return self._waited(request, situation.standing)

    def _waited(self, request: Request, standing: OpenWaits) -> str | None:
        """The id of the wait or of the held run that the request ends; None for one that ends neither."""
        if request.do in (*UNAWAITED, "resume"):
            return None
        if request.do in ("retry", "skip"):
            may_be = standing.pause is None or request.do == "skip"
            runs = [held.run for held in standing.held if _is_held(request, held)] if may_be else []
            return next((run for run in runs if run not in self._answered), None)
        ends = _is_signalled if request.do == "signal" else _is_decided
        return next((wait.id for wait in standing.waits if wait.id not in self._answered and ends(request, wait)), None)


def _is_for(request: Request, step: str) -> bool:
    return request.step is not None and request.step.text == step


def _is_held(request: Request, held: HeldStep) -> bool:
    is_there = request.step is None or request.step.text in (held.step, held.run)
    return is_there and request.iteration in (None, held.iteration)


def _is_signalled(request: Request, wait: Wait) -> bool:
    """A signal with a key is for the wait with that key, or for one without any."""
    is_named = request.name is not None and wait.signal == request.name.text
    return is_named and (request.key is None or wait.key in (None, request.key))


def _is_decided(request: Request, wait: Wait) -> bool:
    is_there = request.step is None or request.step.text == wait.step
    return wait.kind == "approval" and is_there and request.iteration in (None, wait.iteration)


# ---- facts of a machine in memory ------------------------------------------------------------------------------------


def situation_of(machine: Machine, started: Iterable[str], *, is_busy: bool, seconds: float) -> Situation:
    """Return the situation of a run in memory."""
    return Situation(OpenWaits.of(machine.state), frozenset(started), is_busy, seconds)


def fact_of(due: Due, machine: Machine, at: int) -> Event:
    """The fact that the accepted request is. Raises RefusedError with the reason of the run."""
    number, request, target = due
    state, who = machine.state, (request.by, request.reason)
    match request.do:
        case "signal":
            signal = Signal(request.name.text if request.name else "", request.data, request.key)
            _accept(signal_problem(machine.graph, state, signal, []))
            return Signalled(at, number, signal)
        case "approve" | "reject":
            decided = Decided(at, number, target, request.do == "approve", *who, request.form or {})
            _accept(decision_problem(state, decided, []))
            return decided
        case "pause":
            _accept(pause_problem(state, []))
            return PauseRequested(at, number, *who)
        case "resume":
            _accept(resume_problem(state, []))
            return UnpauseRequested(at, number, *who)
        case "retry":
            _accept(retry_problem(state, []))
            return RetryRequested(at, number, (_held(due, machine),), *who)
        case "cancel":
            return CancelRequested(at, request.reason)
        case _:
            _accept(skip_problem(request.data))
            return SkipRequested(at, number, (_held(due, machine),), request.data, *who)


def _held(due: Due, machine: Machine) -> str:
    return chosen_held(machine.graph, machine.state, name_of_held(due), []).run


def name_of_held(due: Due) -> str:
    """Return the name of the held step that a request is for, as ``noetl retry --step`` takes it."""
    step, iteration = due.request.step, due.request.iteration
    named = "" if step is None else step.text if iteration is None else f"{step.text}[{iteration}]"
    return due.target or named


def _accept(why: str | None) -> None:
    if why is not None:
        raise RefusedError(why)
