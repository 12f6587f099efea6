"""Runs a class of attacks in a process of its own, which may hang, be killed or run out of memory.

The process tells of each attack when it begins and when it has ended. When it says nothing for too long or is gone,
the attack that it was at has got through, and another process goes on with the next one.
"""

from __future__ import annotations

import multiprocessing
import random
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import FrameType
from typing import NamedTuple, NoReturn

from dev.attack.attack import Attack, AttackClass

__all__ = ["CPU_SECONDS", "Tally", "run_class"]

CPU_SECONDS = 10.0
"""What one attack may take: the slowest that is stopped takes a second on an idle machine."""

SILENT_SECONDS = 120.0
MEMORY_BYTES = 3 * 1024**3


class _SlowError(BaseException):
    """Raised inside an attack that has used up its time; a BaseException, so that no guard takes it for a failure."""


class _Told(NamedTuple):
    """What the process says: an attack has ended, ``problem`` is why it counts as having got through."""

    what: str
    is_control: bool
    problem: str = ""
    peak_bytes: int = 0


@dataclass
class Tally:
    """What came of a class. ``through`` says which attacks were not stopped and why, ``held`` which controls were."""

    tried: int = 0
    controls: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0
    through: list[str] = field(default_factory=list[str])
    held: list[str] = field(default_factory=list[str])

    @property
    def stopped(self) -> int:
        """Attacks."""
        return self.tried - len(self.through)

    @property
    def is_fine(self) -> bool:
        """Every attack was stopped and no control."""
        return not self.through and not self.held and self.controls > 0

    def add(self, told: _Told) -> None:
        """One more has ended."""
        self.peak_bytes = max(self.peak_bytes, told.peak_bytes)
        if told.is_control:
            self.controls += 1
            self.held += [] if told.problem else [told.what]
        else:
            self.tried += 1
            self.through += [f"{told.what}: {told.problem}"] if told.problem else []


class _Order(NamedTuple):
    attacked: AttackClass
    seed: int
    number: int
    cpu_seconds: float

    def all(self) -> Iterator[tuple[Attack, bool]]:
        """Each attack and then each control, of which it is said that it is one."""
        chance = random.Random(f"{self.attacked.name} {self.seed}")
        yield from ((attack, False) for attack in self.attacked.attacks(chance, self.number))
        yield from ((attack, True) for attack in self.attacked.controls)


def run_class(attacked: AttackClass, seed: int, count: int, cpu_seconds: float = CPU_SECONDS) -> Tally:
    """All attacks of a class, and its controls."""
    tally, began = Tally(), time.monotonic()
    order = _Order(attacked, seed, count, cpu_seconds)
    while not _from(tally.tried + tally.controls, order, tally):
        pass
    tally.seconds = time.monotonic() - began
    return tally


def _from(first: int, order: _Order, tally: Tally) -> bool:
    """Go on with the attack of that number in a new process; whether it has come to the end."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_attack, args=(theirs, order, first))
    process.start()
    theirs.close()
    at: _Told | None = None
    try:
        while ours.poll(SILENT_SECONDS):
            told: _Told | None = ours.recv()
            if told is None:
                return True
            if told.peak_bytes:
                tally.add(told)
            at = told
        problem = f"said nothing for {SILENT_SECONDS:g} s"
    except EOFError:
        problem = "ended the process"
    finally:
        process.kill()
        process.join()
    if at is None or at.peak_bytes:
        raise RuntimeError(f"{order.attacked.name}: the attacking process {problem} between two attacks")
    tally.add(at._replace(problem=problem))
    return False


# ---- inside of the process --------------------------------------------------------------------------------------


def _attack(told: Connection, order: _Order, first: int) -> None:
    if sys.platform == "linux":  # macOS does not hold such a limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGVTALRM, _too_slow)
    for index, (attack, is_control) in enumerate(order.all()):
        if index < first:
            continue
        told.send(_Told(attack.what, is_control))
        with order.attacked.unguarded() if is_control else nullcontext():
            problem = _problem(attack, order.cpu_seconds)
        told.send(_Told(attack.what, is_control, problem, _peak_bytes()))
    told.send(None)


def _problem(attack: Attack, cpu_seconds: float) -> str:
    """Why it counts as having got through; ``""`` when it was stopped."""
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        return "got through" if attack.gets_through() else ""
    except _SlowError:
        return f"took more than {cpu_seconds:g} s"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _too_slow(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _SlowError


def _peak_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
