"""The requests of people and programs to a run in a test: when each is due, and the fact that is made from it.

A request for which the run must wait is sent only when the run can do nothing else, so that the test has the same
result each time. If several requests are due, the first one in the test is sent first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from noetl_compiler.playbook_test_requests import SENT_WHILE_RUNNING, Request
from noetl_temporal.machine.control import (
    RefusedError,
    find_held_run,
    pause_refusal,
    resume_refusal,
    retry_refusal,
    skip_refusal,
)
from noetl_temporal.machine.facts import (
    CancelRequested,
    Decided,
    Fact,
    PauseRequested,
    RetryRequested,
    Signalled,
    SkipRequested,
    UnpauseRequested,
)
from noetl_temporal.machine.held_steps import HeldStep
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.waits.refusals import decision_refusal, signal_refusal
from noetl_temporal.machine.waits.wait import Signal, Wait
from noetl_temporal.messages.control_requests import OpenWaits

__all__ = ["DueRequest", "Refusal", "Requests", "Situation", "fact_of", "name_of_held", "situation_of"]


class DueRequest(NamedTuple):
    """A request that must be sent now. ``target`` is the id of the wait or held step run that it ends, "" if that is
    not known.
    """

    number: int
    request: Request
    target: str = ""


class Refusal(NamedTuple):
    """A request that the run has refused, and the reason."""

    request: Request
    reason: str


@dataclass(frozen=True)
class Situation:
    """The state of a run that decides whether a request is due.

    ``started`` has the steps that have started, ``seconds`` is the time since the start of the run. ``is_busy`` while
    calls are in progress.
    """

    open_waits: OpenWaits
    started: Collection[str]
    is_busy: bool
    seconds: float


@dataclass
class Requests:
    """The requests of a test: those not sent yet, those that the run refused, and the signals that were sent."""

    pending: list[Request]
    signals: list[Request] = field(default_factory=list[Request])
    refusals: list[Refusal] = field(default_factory=list[Refusal])
    _delayed_calls: list[asyncio.Future[None]] = field(default_factory=list["asyncio.Future[None]"])
    _answered: set[str] = field(default_factory=set[str])
    _number: int = 0

    def initial_requests(self) -> Iterator[DueRequest]:
        """Yield the requests that are sent when the run starts."""
        for request in [request for request in self.pending if request.is_at_start]:
            yield self._pop(request, "")

    def due_times(self) -> list[float]:
        """Return the seconds after the start at which requests are due."""
        return sorted({request.at for request in self.pending if request.at is not None})

    def next_due(self, situation: Situation) -> DueRequest | None:
        """Return the first request that is due, and remove it from the pending ones."""
        for request in self.pending:
            target = self._target(request, situation)
            if target is not None:
                return self._pop(request, target)
        return None

    def add_refusal(self, request: Request, reason: str) -> None:
        """Record that the run has refused the request."""
        self.refusals.append(Refusal(request, reason))

    async def wait_until_sent(self, step: str) -> None:
        """Wait until all requests are sent that must be sent before a call of the step ends."""
        while any(
            request.is_at_start or (request.do in SENT_WHILE_RUNNING and _is_for_step(request, step))
            for request in self.pending
        ):
            sent_future = asyncio.get_running_loop().create_future()
            self._delayed_calls.append(sent_future)
            await sent_future

    @property
    def delayed_calls(self) -> int:
        """The number of calls that wait in ``wait_until_sent``."""
        return sum(not future.done() for future in self._delayed_calls)

    def release_calls(self) -> None:
        """Let the delayed calls check again whether all their requests have been sent."""
        delayed_calls, self._delayed_calls = self._delayed_calls, []
        for future in delayed_calls:
            if not future.done():
                future.set_result(None)

    def _pop(self, request: Request, target: str) -> DueRequest:
        self.pending.remove(request)
        if request.do == "signal":
            self.signals.append(request)
        if target:
            self._answered.add(target)
        self._number += 1
        return DueRequest(self._number, request, target)

    def _target(self, request: Request, situation: Situation) -> str | None:
        """Return the target of the request, "" without one; None while the request is not due."""
        if request.at is not None:
            return None if situation.seconds < request.at else self._wait_id(request, situation.open_waits) or ""
        if request.do in SENT_WHILE_RUNNING:
            return "" if request.step is not None and request.step.text in situation.started else None
        if request.do == "resume":
            return "" if situation.open_waits.pause is not None and not situation.is_busy else None
        return self._wait_id(request, situation.open_waits)

    def _wait_id(self, request: Request, open_waits: OpenWaits) -> str | None:
        """Return the id of the wait or of the held step run that the request ends; None if it ends neither."""
        if request.do in (*SENT_WHILE_RUNNING, "resume"):
            return None
        if request.do in ("retry", "skip"):
            is_possible = open_waits.pause is None or request.do == "skip"
            runs = [held.run for held in open_waits.held if _is_held(request, held)] if is_possible else []
            return next((run for run in runs if run not in self._answered), None)
        ends = _is_signalled if request.do == "signal" else _is_decided
        return next(
            (wait.id for wait in open_waits.waits if wait.id not in self._answered and ends(request, wait)), None
        )


def _is_for_step(request: Request, step: str) -> bool:
    return request.step is not None and request.step.text == step


def _is_held(request: Request, held: HeldStep) -> bool:
    is_step = request.step is None or request.step.text in (held.step, held.run)
    return is_step and request.iteration in (None, held.iteration)


def _is_signalled(request: Request, wait: Wait) -> bool:
    """Whether the signal ends the wait. A signal with a key ends waits with the same key and waits without a key."""
    is_named = request.name is not None and wait.signal == request.name.text
    return is_named and (request.key is None or wait.key in (None, request.key))


def _is_decided(request: Request, wait: Wait) -> bool:
    is_step = request.step is None or request.step.text == wait.step
    return wait.kind == "approval" and is_step and request.iteration in (None, wait.iteration)


# ---- facts of a machine in memory ------------------------------------------------------------------------------------


def situation_of(machine: PlaybookMachine, started: Iterable[str], *, is_busy: bool, seconds: float) -> Situation:
    """Return the situation of a run in memory."""
    return Situation(OpenWaits.from_state(machine.state), frozenset(started), is_busy, seconds)


def fact_of(due: DueRequest, machine: PlaybookMachine, time_ms: int) -> Fact:
    """Return the fact of a request that arrives at this time. Raises RefusedError if the run refuses it."""
    number, request, target = due
    state, author = machine.state, (request.by, request.reason)
    match request.do:
        case "signal":
            signal = Signal(request.name.text if request.name else "", request.data, request.key)
            _raise_if_refused(signal_refusal(machine.graph, state, signal, []))
            return Signalled(time_ms, number, signal)
        case "approve" | "reject":
            decision = Decided(time_ms, number, target, request.do == "approve", *author, request.form or {})
            _raise_if_refused(decision_refusal(state, decision, []))
            return decision
        case "pause":
            _raise_if_refused(pause_refusal(state, []))
            return PauseRequested(time_ms, number, *author)
        case "resume":
            _raise_if_refused(resume_refusal(state, []))
            return UnpauseRequested(time_ms, number, *author)
        case "retry":
            _raise_if_refused(retry_refusal(state, []))
            return RetryRequested(time_ms, number, (_held(due, machine),), *author)
        case "cancel":
            return CancelRequested(time_ms, request.reason)
        case _:
            _raise_if_refused(skip_refusal(request.data))
            return SkipRequested(time_ms, number, (_held(due, machine),), request.data, *author)


def _held(due: DueRequest, machine: PlaybookMachine) -> str:
    return find_held_run(machine.graph, machine.state, name_of_held(due), []).run


def name_of_held(due: DueRequest) -> str:
    """Return the name of the held step that a request decides, as ``noetl retry --step`` accepts it."""
    step, iteration = due.request.step, due.request.iteration
    name = "" if step is None else step.text if iteration is None else f"{step.text}[{iteration}]"
    return due.target or name


def _raise_if_refused(reason: str | None) -> None:
    if reason is not None:
        raise RefusedError(reason)
