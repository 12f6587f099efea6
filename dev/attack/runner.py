"""Runs a class of attacks in a separate process, which may hang, be killed or run out of memory.

The process reports the start and end of each attack. If it is silent for too long or dies, the current attack has
succeeded, and another process continues with the next one. Its temporary files lie in a
folder that is removed after it; what it starts has to end when it is gone.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

from dev.attack.attack import THROUGH, Attack, AttackClass

__all__ = ["CPU_SECONDS", "Tally", "run_class"]

CPU_SECONDS = 10.0
"""The CPU limit of one attack: the slowest one that is stopped takes a second on an idle machine."""

SILENT_SECONDS = 120.0
MEMORY_BYTES = 3 * 1024**3


class _SlowError(BaseException):
    """Raised inside an attack that has used up its time; a BaseException, so that no guard takes it for a failure."""


class _Message(NamedTuple):
    """A message of the process: an attack has ended. ``problem`` is the reason why it counts as successful; ``effect``
    is the expected effect of a control, ``""`` for an attack.
    """

    description: str
    effect: str
    problem: str = ""
    peak_bytes: int = 0


@dataclass
class Tally:
    """The results of a class. ``through`` lists the attacks that were not stopped, with the reason, ``held`` the
    controls that were stopped, ``broken`` the controls that failed otherwise than expected. ``missing`` is why none was
    run. ``peak_bytes`` is the memory of the largest process: the attacking one, or one that it started.
    """

    tried: int = 0
    controls: int = 0
    seconds: float = 0.0
    peak_bytes: int = 0
    through: list[str] = field(default_factory=list[str])
    held: list[str] = field(default_factory=list[str])
    broken: list[str] = field(default_factory=list[str])
    missing: str = ""

    @property
    def stopped(self) -> int:
        """Return the number of attacks that were stopped."""
        return self.tried - len(self.through)

    @property
    def is_fine(self) -> bool:
        """Every attack was stopped and every control had its effect, or none could be run."""
        return bool(self.missing) or (not (self.through or self.held or self.broken) and self.controls > 0)

    def add(self, result: _Message) -> None:
        """Count the end of an attack or a control."""
        self.peak_bytes = max(self.peak_bytes, result.peak_bytes)
        problem = f"{result.description}: {result.problem}"
        if not result.effect:
            self.tried += 1
            self.through += [problem] if result.problem else []
            return
        self.controls += 1
        if not result.problem:
            self.held.append(result.description)
        elif not result.problem.startswith(result.effect):
            self.broken.append(f"{problem}, not {result.effect}")


class _Order(NamedTuple):
    attack_class: AttackClass
    seed: int
    number: int
    cpu_seconds: float

    def all(self) -> Iterator[tuple[Attack, bool]]:
        """Yield each attack and then each control, and whether it is a control."""
        rng = random.Random(f"{self.attack_class.name} {self.seed}")
        yield from ((attack, False) for attack in self.attack_class.attacks(rng, self.number))
        yield from ((attack, True) for attack in self.attack_class.controls)


def run_class(attack_class: AttackClass, seed: int, count: int, cpu_seconds: float = CPU_SECONDS) -> Tally:
    """Run all attacks of a class and its controls, or none if the machine lacks what stops them."""
    tally, start = Tally(missing=attack_class.missing()), time.monotonic()
    if tally.missing:
        return tally
    order = _Order(attack_class, seed, count, cpu_seconds)
    while not _continue_from(tally.tried + tally.controls, order, tally):
        pass
    tally.seconds = time.monotonic() - start
    return tally


def _continue_from(first_index: int, order: _Order, tally: Tally) -> bool:
    """Continue with the attack of that number in a new process; return whether all have run."""
    with tempfile.TemporaryDirectory(prefix="noetl-attack-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)  # accounts of tasks and of Postgres have theirs below it
        return _results_of_process(folder, first_index, order, tally)


def _results_of_process(folder: str, first_index: int, order: _Order, tally: Tally) -> bool:
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_attack, args=(sender, order, first_index, folder))
    process.start()
    sender.close()
    last_message: _Message | None = None
    try:
        while receiver.poll(SILENT_SECONDS):
            message: _Message | None = receiver.recv()
            if message is None:
                return True
            if message.peak_bytes:
                tally.add(message)
            last_message = message
        problem = f"did not respond for {SILENT_SECONDS:g} s"
    except EOFError:
        problem = "ended the process"
    finally:
        process.kill()
        process.join()
    if last_message is None or last_message.peak_bytes:
        raise RuntimeError(f"{order.attack_class.name}: the attacking process {problem} between two attacks")
    tally.add(last_message._replace(problem=problem))
    return False


# ---- inside of the process --------------------------------------------------------------------------------------


def _attack(pipe: Connection, order: _Order, first_index: int, folder: str) -> None:
    if sys.platform == "linux":  # macOS does not hold such a limit
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    signal.signal(signal.SIGVTALRM, _too_slow)
    with order.attack_class.site():
        for index, (attack, is_control) in enumerate(order.all()):
            if index >= first_index:
                _run(pipe, attack, order, is_control)
    pipe.send(None)


def _run(pipe: Connection, attack: Attack, order: _Order, is_control: bool) -> None:
    """Run an attack. A failure to disable the guard of a control is raised, which ends the process between attacks."""
    with order.attack_class.disable_guard() if is_control else nullcontext():
        message = _Message(attack.description, attack.effect if is_control else "")
        pipe.send(message)
        pipe.send(message._replace(problem=_problem(attack, order.cpu_seconds), peak_bytes=_peak_bytes()))


def _problem(attack: Attack, cpu_seconds: float) -> str:
    """Why the attack counts as successful; ``""`` if it was stopped."""
    signal.setitimer(signal.ITIMER_VIRTUAL, cpu_seconds)
    try:
        return THROUGH if attack.gets_through() else ""
    except _SlowError:
        return f"took more than {cpu_seconds:g} s"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _too_slow(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _SlowError


def _peak_bytes() -> int:
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return peak if sys.platform == "darwin" else peak * 1024
