"""The budget of one rendering, counted in work instead of time, so that every replay makes the same decision.

A step is one iteration, one call, or one visited node of a container. Characters are those that operations produce.
Nodes are those of the rendered data, most of which comes from the scope and may be large. Operations are charged before
they run: ``"a" * 10**9`` is refused before a byte is allocated. No budget allows a second of work.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any, NamedTuple

__all__ = [
    "MAX_BITS",
    "MAX_CHARS",
    "MAX_NODES",
    "MAX_STEPS",
    "NODES_A_CONTAINER",
    "BudgetExceededError",
    "NotDataError",
    "RenderBudget",
    "check_number",
    "check_text",
]

MAX_STEPS = 2_000_000
MAX_CHARS = 10_000_000
MAX_BITS = 10_000
_WORD, _BITS_A_STEP = 64, 25
_STEPS_A_CONTAINER = 20
_CONTAINERS = frozenset({list, tuple, dict})
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
MAX_NODES = 8_000_000
NODES_A_CONTAINER = 40
"""The cost of creating a container, relative to copying one of its items."""

_STEPS_A_RENDERING, _STEPS_A_MISSING_NAME, _CHARS_A_STEP_OF_SOURCE = 200, 500, 16
_CHARS_A_UNIT, _NODES_A_UNIT = 5, 2
_ALL_WORK = MAX_STEPS + MAX_CHARS // _CHARS_A_UNIT + MAX_NODES // _NODES_A_UNIT


class NotDataError(TypeError):
    """The value of a template is not JSON data."""


class BudgetExceededError(Exception):
    """A template exceeds its budget."""


def check_text(text: str) -> None:
    """Raise UnicodeEncodeError for text with an unpaired surrogate."""
    if not text.isascii():
        text.encode("utf-8")


def check_number(number: float) -> None:
    """Raise :class:`NotDataError` for integers of more than 64 bits, infinity and nan, which are not portable JSON."""
    if isinstance(number, float):
        if not math.isfinite(number):
            raise NotDataError(f"the template gives {number}, a number that JSON cannot carry")
    elif not _SMALLEST <= number <= _LARGEST:
        raise NotDataError("the template gives a number of more than 64 bits")


class _Weight(NamedTuple):
    """The cost of a container written out. The container is kept alive, so that its id is not reused."""

    container: Any
    steps: int
    chars: int


class RenderBudget:
    """The remaining budget of one rendering."""

    __slots__ = ("_chars", "_nodes", "_steps", "_weights")

    def __init__(self) -> None:
        self._steps = MAX_STEPS
        self._chars = MAX_CHARS
        self._nodes = MAX_NODES
        self._weights: dict[int, _Weight] = {}

    def begin(self, source: str) -> None:
        """Charge the fixed cost of rendering a template."""
        self.step(_STEPS_A_RENDERING + len(source) // _CHARS_A_STEP_OF_SOURCE)

    def missing_name(self) -> None:
        """Charge for the search of the undefined name. It follows the rendering, so it is never refused."""
        self._steps -= _STEPS_A_MISSING_NAME

    def work(self) -> int:
        """The work charged so far, in steps.

        An exceeded budget counts as fully used: by how much it was exceeded depends on which containers of the scope
        are the same object, which may differ in a replay.
        """
        if min(self._steps, self._chars, self._nodes) < 0:
            return _ALL_WORK
        chars, nodes = MAX_CHARS - self._chars, MAX_NODES - self._nodes
        return MAX_STEPS - self._steps + chars // _CHARS_A_UNIT + nodes // _NODES_A_UNIT

    def step(self, count: int = 1) -> None:
        """Charge for work."""
        self._steps -= count
        if self._steps < 0:
            raise BudgetExceededError(f"the template takes more than {MAX_STEPS:,} steps")

    def chars(self, count: int) -> None:
        """Charge for characters of text."""
        self._chars -= count
        if self._chars < 0:
            raise BudgetExceededError(f"the template makes more than {MAX_CHARS:,} characters")

    def nodes(self, count: int) -> None:
        """Charge for nodes of the rendered data."""
        self._nodes -= count
        if self._nodes < 0:
            raise BudgetExceededError(f"the template gives more than {MAX_NODES:,} values")

    def bits(self, count: int) -> None:
        """Refuse an integer with too many bits; the bits of several integers are not added up."""
        if count > MAX_BITS:
            raise BudgetExceededError(f"the template makes a number of more than {MAX_BITS:,} bits")

    def long_number(self, bits: int) -> None:
        """Charge for computing or formatting an integer of ``bits`` bits."""
        if bits > _WORD:
            self.bits(bits)
            self.step(bits // _BITS_A_STEP)

    def read(self, value: Any) -> None:
        """Charge for an operation that reads ``value`` once, but not its nested values."""
        kind = value.__class__
        if kind is str:
            self.chars(len(value))
        elif kind in (list, tuple, dict, range):
            self.step(len(value))

    def weigh(self, value: Any, times: int = 1) -> None:
        """Charge for ``value`` written out ``times`` times; shared parts count at each occurrence.

        Also checks that values which a template puts into containers are JSON, so that rendered data need no check.
        """
        kind = value.__class__
        if kind is str:
            self.chars(len(value) * times)
        elif kind is int:
            self.bits(value.bit_length())
        elif kind in (list, tuple, dict):
            self._weigh_container(value, times)

    def _weigh_container(self, container: Any, times: int) -> None:
        """Weigh containers, and cache their weights, as templates cannot change containers."""
        times = max(1, times)
        waiting: list[Any] = [container]
        before = self._steps, self._chars
        while waiting:
            value = waiting.pop()
            known = self._weights.get(id(value))
            if known is not None:
                self.step(known.steps * times)
                self.chars(known.chars * times)
                continue
            self.step((len(value) + _STEPS_A_CONTAINER) * times)
            for items in (value, value.values()) if value.__class__ is dict else (value,):
                waiting += self._weigh_items(items, times)
        self._remember(container, (before[0] - self._steps) // times, (before[1] - self._chars) // times)

    def _weigh_items(self, items: Collection[Any], times: int) -> list[Any]:
        """Charge for texts and check numbers, type by type, as most lists have only one; return the other items."""
        kinds = set(map(type, items))
        if str in kinds:
            texts = _of_kind(str, items, kinds)
            self.chars(sum(map(len, texts)) * times)
            for text in texts if not all(map(str.isascii, texts)) else ():
                check_text(text)
        if int in kinds:
            numbers = _of_kind(int, items, kinds)
            check_number(min(numbers))
            check_number(max(numbers))
        return [] if kinds.isdisjoint(_CONTAINERS) else [item for item in items if item.__class__ in _CONTAINERS]

    def _remember(self, container: Any, steps: int, chars: int) -> None:
        self._weights[id(container)] = _Weight(container, steps, chars)


def _of_kind(kind: type, items: Collection[Any], kinds: set[type]) -> Collection[Any]:
    return items if len(kinds) == 1 else [item for item in items if item.__class__ is kind]
