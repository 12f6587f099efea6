"""People who control random runs: they pause and resume them, and retry or skip the steps that are held.

They have random numbers of their own, so that playbooks without holds do not change.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from dev.simulate.paused_calls import PausedCalls
from noetl_temporal.machine.control import pause_refusal, resume_refusal, retry_refusal
from noetl_temporal.machine.facts import PauseRequested, RetryRequested, SkipRequested, UnpauseRequested
from noetl_temporal.machine.held_steps import held_steps
from noetl_temporal.machine.playbook import PlaybookMachine

if TYPE_CHECKING:
    from dev.simulate.host import Host

__all__ = ["Operators", "with_holds"]

PROBABILITY = 0.25
"""The probability that some steps of a playbook are held when they fail."""

PAUSED_NOW = 0.4
"""The probability that a pause interrupts the calls in flight."""

PAUSED_MEANWHILE = 0.3
"""The probability that the run is paused before a loop has received a retry."""

DECIDED_AT_ONCE = 0.3
"""The probability that a decision is about all held runs at once."""

FIRST_REQUEST = 1_000_000
"""Ids of their requests are above those of others."""


def with_holds(text: str, seed: int) -> str:
    """The playbook with ``on_failure: hold`` on some of its steps, or on all."""
    rng = random.Random(f"{seed}/holds")
    if rng.random() >= PROBABILITY or not text.startswith("{"):
        return text
    document: dict[str, Any] = json.loads(text)
    if document.get("apiVersion") != "noetl.io/v10":
        return text
    if rng.random() < 0.3:
        document.setdefault("executor", {}).setdefault("spec", {})["on_failure"] = _hold(rng)
    for step in document["workflow"]:
        if rng.random() < 0.5:
            step["on_failure"] = "fail" if rng.random() < 0.2 else _hold(rng)
    return json.dumps(document, ensure_ascii=False, indent=1)


def _hold(rng: random.Random) -> Any:
    return rng.choice(("hold", {"do": "hold", "for": rng.choice((1, 60, "{{ nobody }}"))}))


class Operators:
    """The people who control one run. They send only requests that the validators accept."""

    def __init__(self, seed: str, later: Callable[[int, Callable[[], None]], object]) -> None:
        self._rng = random.Random(f"{seed}/operators")
        self._later = later
        self._requests = FIRST_REQUEST
        self._interrupting_rng = random.Random(f"{seed}/pause --now")
        self._concurrent_rng = random.Random(f"{seed}/pause while a decision is on its way")
        self._paused_calls = PausedCalls()

    def pause_now_and_then(self, host: Host) -> None:
        """Pause the run at random times, some with ``--now``, and resume it later."""
        for _ in range(self._rng.choice((0, 0, 1, 3, 8))):
            self._later(self._random_delay(), partial(self._pause, host))

    def decide_now_and_then(self, host: Host) -> None:
        """Decide at random times about the runs that are held then; the others fail when their time is over."""
        for _ in range(self._rng.choice((0, 3, 20))):
            self._later(self._random_delay(), partial(self._decide, host))

    def _random_delay(self) -> int:
        return self._rng.randint(0, self._rng.choice((50, 1_000, 20_000, 400_000)))

    def _pause(self, host: Host) -> None:
        machine = _playbook_of(host)
        if machine is not None and pause_refusal(machine.state, []) is None:
            host.feed(PauseRequested(host.world.now, self._id(), "ann", "why"))
            if self._interrupting_rng.random() < PAUSED_NOW:
                self._paused_calls.pause(host.calls)
            self._later(self._random_delay(), partial(self._resume, host))

    def _resume(self, host: Host) -> None:
        machine = _playbook_of(host)
        if machine is not None and resume_refusal(machine.state, []) is None:
            host.feed(UnpauseRequested(host.world.now, self._id(), "bob"))
        self._paused_calls.resume(host.world)

    def _decide(self, host: Host) -> None:
        machine = _playbook_of(host)
        held = [] if machine is None else held_steps(machine.state.waits.values())
        if machine is None or not held:
            return
        selected, at = self._rng.choice(held), host.world.now
        is_all = self._concurrent_rng.random() < DECIDED_AT_ONCE
        runs = tuple(held_step.run for held_step in (held if is_all else [selected]))
        if self._rng.random() < 0.3:
            host.feed(SkipRequested(at, self._id(), runs, {"n": 1}, "ann"))
        elif retry_refusal(machine.state, []) is None:
            host.feed(RetryRequested(at, self._id(), runs, "ann"))
            if self._concurrent_rng.random() < PAUSED_MEANWHILE:
                self._later(self._concurrent_rng.randint(0, 20), partial(self._pause, host))

    def _id(self) -> int:
        self._requests += 1
        return self._requests


def _playbook_of(host: Host) -> PlaybookMachine | None:
    """Return the machine of the host if it is a playbook that is running."""
    machine = host.machine
    return (
        machine
        if isinstance(machine, PlaybookMachine) and not host.is_over and machine.state.phase == "running"
        else None
    )
