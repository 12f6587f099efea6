"""How a safeguard of the machine is disabled, and whether the simulation detects that."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple
from unittest.mock import patch

from dev.simulate.runs import simulate

__all__ = ["MissingTargetError", "Mutation", "Verdict", "apply_mutation", "replaced_by", "run_mutation", "wrapped_by"]

Make = Callable[[Any], Any]


class Mutation(NamedTuple):
    """Disables one safeguard of the machine: replaces attribute ``name`` of ``owner`` by ``make(original)``."""

    safeguard: str
    owner: Any
    name: str
    make: Make

    @property
    def target(self) -> Any:
        """Return the attribute that is replaced. Raises MissingTargetError if the machine no longer has it."""
        if not hasattr(self.owner, self.name):
            raise MissingTargetError(f"{self.owner.__name__} has no {self.name}: the mutation must follow the machine")
        return getattr(self.owner, self.name)


class MissingTargetError(Exception):
    """The attribute that a mutation replaces does not exist."""


class Verdict(NamedTuple):
    """``invariant`` is "" when nothing was found in ``seeds`` seeds."""

    invariant: str
    seed: int
    seeds: int
    seconds: float


def replaced_by(replacement: Any) -> Make:
    """Replace the target by this."""
    return lambda _: replacement


def wrapped_by(function: Callable[..., Any]) -> Make:
    """Replace a function by one that gets the original first, then its arguments."""

    def make(target: Any) -> Any:
        def replacement(*arguments: Any, **keywords: Any) -> Any:
            return function(target, *arguments, **keywords)

        return replacement

    return make


@contextlib.contextmanager
def apply_mutation(mutation: Mutation) -> Generator[None]:
    """Inside the block the safeguard is disabled. Raises MissingTargetError."""
    with patch.object(mutation.owner, mutation.name, mutation.make(mutation.target)):
        yield


def run_mutation(mutation: Mutation, first_seed: int, seconds: float) -> Verdict:
    """Run seeds under a mutation until an invariant breaks that holds without it, for at most ``seconds`` of CPU.

    Raises MissingTargetError.
    """
    start, seed = time.process_time(), first_seed
    while time.process_time() < start + seconds:
        with apply_mutation(mutation):
            finding = simulate(seed).finding
        if finding is not None and simulate(seed).finding is None:
            return Verdict(finding.invariant, seed, seed - first_seed + 1, time.process_time() - start)
        seed += 1
    return Verdict("", 0, seed - first_seed, time.process_time() - start)
