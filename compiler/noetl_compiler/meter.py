"""The budget of one rendering, counted in work and never in time, so that every replay decides alike.

A step is one iteration, one call, one node of a container looked at; characters are those an operation makes.
Who is about to make something charges for it first: ``"a" * 10**9`` is refused before a byte is allocated.
"""

from __future__ import annotations

from typing import Any

__all__ = ["MAX_BITS", "MAX_CHARS", "MAX_STEPS", "BudgetExceededError", "Meter"]

MAX_STEPS = 2_000_000
MAX_CHARS = 20_000_000
MAX_BITS = 10_000


class BudgetExceededError(Exception):
    """The template wants more than a template may have."""


class Meter:
    """What is left of the budget."""

    __slots__ = ("_chars", "_steps")

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._chars = MAX_CHARS

    def step(self, count: int = 1) -> None:
        """Charge for work."""
        self._steps -= count
        if self._steps < 0:
            raise BudgetExceededError(f"the template takes more than {MAX_STEPS:,} steps")

    def chars(self, count: int) -> None:
        """Charge for text."""
        self._chars -= count
        if self._chars < 0:
            raise BudgetExceededError(f"the template makes more than {MAX_CHARS:,} characters")

    def bits(self, count: int) -> None:
        """Refuse an integer that is too long; integers are not summed up."""
        if count > MAX_BITS:
            raise BudgetExceededError(f"the template makes a number of more than {MAX_BITS:,} bits")

    def read(self, value: Any) -> None:
        """Charge for an operation that goes over ``value`` once, itself but not what is in it."""
        kind = value.__class__
        if kind is str:
            self.chars(len(value))
        elif kind in (list, tuple, dict, range):
            self.step(len(value))

    def weigh(self, value: Any, times: int = 1) -> None:
        """Charge ``times`` over for ``value`` as if it were written out; parts it shares count every time."""
        kind = value.__class__
        if kind is str:
            self.chars(len(value) * times)
        elif kind is int:
            self.bits(value.bit_length())
        elif kind in (list, tuple, dict):
            self._weigh_container(value, times)

    def _weigh_container(self, container: Any, times: int) -> None:
        waiting: list[Any] = [container]
        while waiting:
            value = waiting.pop()
            kind = value.__class__
            if kind is str:
                self.chars(len(value) * times)
            elif kind in (list, tuple):
                self.step(len(value) * times + 1)
                waiting.extend(value)
            elif kind is dict:
                self.step(len(value) * times + 1)
                waiting.extend(value)
                waiting.extend(value.values())
