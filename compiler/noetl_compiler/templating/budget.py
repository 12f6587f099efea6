"""The budget of one rendering, counted in work instead of time, so that every replay makes the same decision.

A step is at least the time of one addition in a plain Python loop, so a rendering takes at most about as long as
``MAX_STEPS`` additions (dev/decisions/0071). Characters are those that operations produce, nodes those of the rendered
data, most of which comes from the scope and may be large. Both have limits of their own, for memory, and cost steps
too, so that no template can spend one budget after the other. Operations are charged before they run: ``"a" * 10**9``
is refused before a byte is allocated.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from contextvars import ContextVar
from itertools import chain
from operator import countOf
from typing import Any, NamedTuple

__all__ = [
    "MAX_BITS",
    "MAX_CHARS",
    "MAX_NODES",
    "MAX_NODES_PASSED_ON",
    "MAX_STEPS",
    "NODES_A_CONTAINER",
    "TOO_MANY_BITS",
    "BudgetExceededError",
    "NotDataError",
    "RenderBudget",
    "check_number",
    "check_text",
    "current_budget",
]

TOO_MANY_BITS = "the template yields a number of more than 64 bits"

MAX_STEPS = 2_000_000
MAX_CHARS = 10_000_000
MAX_NODES = 2_000_000
MAX_NODES_PASSED_ON = 8_000_000
"""Values of the scope that are passed on as they are: no template makes them larger than the run allows."""

MAX_BITS = 10_000

NODES_A_CONTAINER = 32
"""The cost of creating a container, relative to copying one of its items."""

_UNITS_A_STEP, _UNITS_A_NODE_PASSED_ON = 10, 2
"""Units are integers, so that sums do not depend on the order of charges. A character is one."""

_NODES_A_MADE_NODE = MAX_NODES_PASSED_ON // MAX_NODES

_WORD, _BITS_A_STEP = 64, 15
_SQUARED_BITS_A_STEP = 30_000
"""Converting an integer between binary and decimal takes time in proportion to the square of its length."""

_STEPS_A_WEIGHING, _STEPS_A_CONTAINER, _STEPS_AN_ITEM = 130, 20, 3
_STEPS_A_FLOAT, _STEPS_NOT_CACHED = 7, 100
_CHARS_A_STEP_OUTSIDE_ASCII = 2
"""Filters that compare texts change their case, which is slow where one letter becomes several."""

_CONTAINERS = frozenset({list, tuple, dict})
_NO_ITEMS: dict[str, Any] = {}
_VIEWS: frozenset[type] = frozenset({type(_NO_ITEMS.keys()), type(_NO_ITEMS.values()), type(_NO_ITEMS.items())})
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
_STEPS_A_RENDERING, _STEPS_A_MISSING_NAME, _CHARS_A_STEP_OF_SOURCE = 200, 500, 16


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
            raise NotDataError(f"the template yields {number}, which JSON cannot represent")
    elif not _SMALLEST <= number <= _LARGEST:
        raise NotDataError(TOO_MANY_BITS)


class _Weight(NamedTuple):
    """The cost of a container written out. The container is kept alive, so that its id is not reused."""

    container: Any
    steps: int
    chars: int


current_budget: ContextVar[RenderBudget | None] = ContextVar("current_budget", default=None)
"""The budget of the rendering in progress, for what has no context: the creation of a missing value."""


class RenderBudget:
    """The remaining budget of one rendering."""

    __slots__ = ("_chars", "_nodes", "_units", "_weights", "is_passing_on")

    def __init__(self) -> None:
        self.is_passing_on = False
        self._units = MAX_STEPS * _UNITS_A_STEP
        self._chars = MAX_CHARS
        self._nodes = MAX_NODES_PASSED_ON
        self._weights: dict[int, _Weight] = {}

    def begin(self, source: str) -> None:
        """Charge the fixed cost of rendering a template."""
        self.step(_STEPS_A_RENDERING + len(source) // _CHARS_A_STEP_OF_SOURCE)

    def missing_name(self) -> None:
        """Charge for the search of the undefined name. It follows the rendering, so it is never refused."""
        self._units -= _STEPS_A_MISSING_NAME * _UNITS_A_STEP

    def work(self) -> int:
        """The work charged so far, in steps.

        An exceeded budget counts as fully used: by how much it was exceeded depends on which containers of the scope
        are the same object, which may differ in a replay.
        """
        if min(self._units, self._chars, self._nodes) < 0:
            return MAX_STEPS
        return MAX_STEPS - self._units // _UNITS_A_STEP

    def step(self, count: int = 1) -> None:
        """Charge for work."""
        self._units -= count * _UNITS_A_STEP
        if self._units < 0:
            raise BudgetExceededError(f"the template takes more than {MAX_STEPS:,} steps")

    def chars(self, count: int) -> None:
        """Charge for characters of text."""
        self._chars -= count
        if self._chars < 0:
            raise BudgetExceededError(f"the template produces more than {MAX_CHARS:,} characters")
        self._units -= count
        if self._units < 0:
            self.step(0)

    def nodes(self, count: int) -> None:
        """Charge for nodes of the rendered data."""
        count *= 1 if self.is_passing_on else _NODES_A_MADE_NODE
        self._nodes -= count
        if self._nodes < 0:
            most = MAX_NODES_PASSED_ON if self.is_passing_on else MAX_NODES
            raise BudgetExceededError(f"the template yields more than {most:,} values")
        self._units -= count * _UNITS_A_NODE_PASSED_ON
        if self._units < 0:
            self.step(0)

    def bits(self, count: int) -> None:
        """Refuse an integer with too many bits; the bits of several integers are not added up."""
        if count > MAX_BITS:
            raise BudgetExceededError(f"the template produces a number of more than {MAX_BITS:,} bits")

    def long_number(self, bits: int) -> None:
        """Charge for computing an integer of ``bits`` bits."""
        if bits > _WORD:
            self.bits(bits)
            self.step(bits // _BITS_A_STEP)

    def digits(self, bits: int) -> None:
        """Charge for writing or reading an integer of ``bits`` bits in decimal."""
        if bits > _WORD:
            self.long_number(bits)
            self.step(bits * bits // _SQUARED_BITS_A_STEP)

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
        elif kind in _CONTAINERS:
            times = max(1, times)
            self.step(_STEPS_A_WEIGHING)
            known = self._weights.get(id(value))
            if known is not None:
                self._weigh_again(known, times)
                return
            weight = self._weigh_container(value, times)
            if weight.steps > _STEPS_NOT_CACHED:
                self._weights[id(value)] = weight
        elif kind in _VIEWS:
            self.step(len(value))
            self.weigh(list(value), times)
        elif kind is range:
            self.step(_STEPS_AN_ITEM * len(value) * times)

    def _weigh_again(self, known: _Weight, times: int) -> None:
        self.step(known.steps * times)
        self.chars(known.chars * times)

    def _weigh_container(self, container: Any, times: int) -> _Weight:
        """Charge for a container level by level, each before its items are looked at, and return its weight.

        Weights are cached, as templates cannot change containers.
        """
        steps = chars = 0
        level: list[Any] = [container]
        while level:
            count = sum([2 * len(one) if one.__class__ is dict else len(one) for one in level])
            self.step(_STEPS_AN_ITEM * count * times)
            steps += _STEPS_AN_ITEM * count
            waiting: list[Any] = []
            for items in _parts_of(level):
                kinds = set(map(type, items))
                part = self._weigh_items(items, kinds, times)
                steps, chars = steps + part[0], chars + part[1]
                if inner := kinds & _CONTAINERS:
                    found = _STEPS_A_CONTAINER * sum([countOf(map(type, items), kind) for kind in inner])
                    self.step(found * times)
                    steps += found
                    waiting += [item for item in items if item.__class__ in _CONTAINERS]
            level = []
            for item in waiting:
                known = self._weights.get(id(item))
                if known is None:
                    level.append(item)
                else:
                    self._weigh_again(known, times)
                    steps, chars = steps + known.steps, chars + known.chars
        return _Weight(container, steps, chars)

    def _weigh_items(self, items: Collection[Any], kinds: set[type], times: int) -> tuple[int, int]:
        """Charge for numbers and texts, and check them, all of a type at once: a call for each would take longer.

        Return the steps and characters charged, for one time.
        """
        steps = chars = 0
        if float in kinds:
            steps = _STEPS_A_FLOAT * countOf(map(type, items), float)
            self.step(steps * times)
        if str in kinds:
            texts = _of_kind(str, items, kinds)
            chars = sum(map(len, texts))
            self.chars(chars * times)
            if not all(map(str.isascii, texts)):
                steps += chars // _CHARS_A_STEP_OUTSIDE_ASCII
                self.step(chars * times // _CHARS_A_STEP_OUTSIDE_ASCII)
                check_text("".join(texts))
        if int in kinds:
            numbers = _of_kind(int, items, kinds)
            check_number(min(numbers))
            check_number(max(numbers))
        return steps, chars


def _parts_of(level: list[Any]) -> list[Collection[Any]]:
    """Return the items of lists, the keys and the values of mappings; keys are apart, as all of them are text."""
    if len(level) == 1:
        [one] = level
        return [one, one.values()] if one.__class__ is dict else [one]
    mappings = [one for one in level if one.__class__ is dict]
    lists = [one for one in level if one.__class__ is not dict] if mappings else level
    values = chain.from_iterable([one.values() for one in mappings])
    return [list(chain.from_iterable(mappings)), [*chain.from_iterable(lists), *values]]


def _of_kind(kind: type, items: Collection[Any], kinds: set[type]) -> Collection[Any]:
    return items if len(kinds) == 1 else [item for item in items if item.__class__ is kind]
