"""The budget of one rendering, counted in work instead of time, so that every replay makes the same decision.

A step is at least the time of one addition in a plain Python loop, so a rendering takes at most about as long as
``MAX_STEPS`` additions (dev/decisions/0071). Characters are counted when operations produce them, nodes when they
become part of the rendered data, most of which comes from the scope and may be large. Both have limits of their own,
for memory, and cost steps too, so that no template can spend one budget after the other. Operations are charged before
they run: ``"a" * 10**9`` is refused before a byte is allocated.
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
    "NODES_PER_CONTAINER",
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
"""The limit for values of the scope that a template passes on unchanged. No template can enlarge them."""

MAX_BITS = 10_000

NODES_PER_CONTAINER = 32
"""The cost of creating a container, relative to copying one of its items."""

_UNITS_PER_STEP, _UNITS_PER_NODE_PASSED_ON = 10, 2
"""Charges are counted in units, which are integers, so that sums do not depend on their order. A character costs one.
"""

_NODES_PER_CREATED_NODE = MAX_NODES_PASSED_ON // MAX_NODES

_WORD_BITS, _BITS_PER_STEP = 64, 15
_SQUARED_BITS_PER_STEP = 30_000
"""Converting an integer between binary and decimal takes time in proportion to the square of its length."""

_STEPS_PER_DEEP_READ, _STEPS_PER_CONTAINER, _STEPS_PER_ITEM = 130, 20, 3
_STEPS_PER_FLOAT, _MAX_STEPS_UNCACHED = 7, 100
_CHARS_PER_STEP_OUTSIDE_ASCII = 2
"""Filters that compare strings convert their case, which is slow where one letter becomes several."""

_CONTAINERS = frozenset({list, tuple, dict})
_NO_ITEMS: dict[str, Any] = {}
_VIEWS: frozenset[type] = frozenset({type(_NO_ITEMS.keys()), type(_NO_ITEMS.values()), type(_NO_ITEMS.items())})
_MIN_INTEGER, _MAX_INTEGER = -(2**63), 2**64 - 1
_STEPS_PER_RENDERING, _STEPS_PER_MISSING_NAME, _CHARS_PER_STEP_OF_SOURCE = 200, 500, 16


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
    elif not _MIN_INTEGER <= number <= _MAX_INTEGER:
        raise NotDataError(TOO_MANY_BITS)


class _Weight(NamedTuple):
    """The cost of reading a container with its nested values. ``container`` keeps it alive, so that its id is not
    reused.
    """

    container: Any
    steps: int
    chars: int


current_budget: ContextVar[RenderBudget | None] = ContextVar("current_budget", default=None)
"""The budget of the rendering in progress, for code that has no context, such as the creation of a missing value."""


class RenderBudget:
    """The remaining budget of one rendering.

    While ``is_passing_on``, nodes are charged as values of the scope that are passed on unchanged, which cost less than
    values that a template creates.
    """

    __slots__ = ("_chars", "_nodes", "_units", "_weights", "is_passing_on")

    def __init__(self) -> None:
        self.is_passing_on = False
        self._units = MAX_STEPS * _UNITS_PER_STEP
        self._chars = MAX_CHARS
        self._nodes = MAX_NODES_PASSED_ON
        self._weights: dict[int, _Weight] = {}

    def charge_start(self, source: str) -> None:
        """Charge the fixed cost of rendering a template."""
        self.charge_steps(_STEPS_PER_RENDERING + len(source) // _CHARS_PER_STEP_OF_SOURCE)

    def charge_missing_name(self) -> None:
        """Charge for the search of the undefined name. It follows the rendering, so it is never refused."""
        self._units -= _STEPS_PER_MISSING_NAME * _UNITS_PER_STEP

    def work(self) -> int:
        """Return the work charged so far, in steps.

        An exceeded budget counts as fully used, because the excess depends on which containers of the scope are the
        same object, which may differ in a replay.
        """
        if min(self._units, self._chars, self._nodes) < 0:
            return MAX_STEPS
        return MAX_STEPS - self._units // _UNITS_PER_STEP

    def charge_steps(self, count: int = 1) -> None:
        """Charge for work."""
        self._units -= count * _UNITS_PER_STEP
        if self._units < 0:
            raise BudgetExceededError(f"the template takes more than {MAX_STEPS:,} steps")

    def charge_chars(self, count: int) -> None:
        """Charge for characters that an operation produces."""
        self._chars -= count
        if self._chars < 0:
            raise BudgetExceededError(f"the template produces more than {MAX_CHARS:,} characters")
        self._units -= count
        if self._units < 0:
            self.charge_steps(0)

    def charge_nodes(self, count: int) -> None:
        """Charge for nodes of the rendered data."""
        count *= 1 if self.is_passing_on else _NODES_PER_CREATED_NODE
        self._nodes -= count
        if self._nodes < 0:
            limit = MAX_NODES_PASSED_ON if self.is_passing_on else MAX_NODES
            raise BudgetExceededError(f"the template yields more than {limit:,} values")
        self._units -= count * _UNITS_PER_NODE_PASSED_ON
        if self._units < 0:
            self.charge_steps(0)

    def check_bits(self, count: int) -> None:
        """Raise BudgetExceededError for an integer with too many bits. Nothing is charged."""
        if count > MAX_BITS:
            raise BudgetExceededError(f"the template produces a number of more than {MAX_BITS:,} bits")

    def charge_long_integer(self, bits: int) -> None:
        """Charge for computing an integer of ``bits`` bits."""
        if bits > _WORD_BITS:
            self.check_bits(bits)
            self.charge_steps(bits // _BITS_PER_STEP)

    def charge_digits(self, bits: int) -> None:
        """Charge for writing or reading an integer of ``bits`` bits in decimal."""
        if bits > _WORD_BITS:
            self.charge_long_integer(bits)
            self.charge_steps(bits * bits // _SQUARED_BITS_PER_STEP)

    def charge_read(self, value: Any) -> None:
        """Charge for an operation that reads ``value`` once, but not its nested values."""
        kind = value.__class__
        if kind is str:
            self.charge_chars(len(value))
        elif kind in (list, tuple, dict, range):
            self.charge_steps(len(value))

    def charge_deep_read(self, value: Any, times: int = 1) -> None:
        """Charge for reading ``value`` with its nested values ``times`` times; shared parts count at each occurrence.

        Also checks that values which a template puts into containers are JSON, so that rendered data need no check.
        """
        kind = value.__class__
        if kind is str:
            self.charge_chars(len(value) * times)
        elif kind is int:
            self.check_bits(value.bit_length())
        elif kind in _CONTAINERS:
            times = max(1, times)
            self.charge_steps(_STEPS_PER_DEEP_READ)
            cached_weight = self._weights.get(id(value))
            if cached_weight is not None:
                self._charge_weight(cached_weight, times)
                return
            weight = self._charge_container(value, times)
            if weight.steps > _MAX_STEPS_UNCACHED:
                self._weights[id(value)] = weight
        elif kind in _VIEWS:
            self.charge_steps(len(value))
            self.charge_deep_read(list(value), times)
        elif kind is range:
            self.charge_steps(_STEPS_PER_ITEM * len(value) * times)

    def _charge_weight(self, cached_weight: _Weight, times: int) -> None:
        self.charge_steps(cached_weight.steps * times)
        self.charge_chars(cached_weight.chars * times)

    def _charge_container(self, container: Any, times: int) -> _Weight:
        """Charge for a container level by level, each before its items are read, and return its weight.

        Weights are cached, as templates cannot change containers.
        """
        steps = chars = 0
        level: list[Any] = [container]
        while level:
            count = sum([2 * len(inner) if inner.__class__ is dict else len(inner) for inner in level])
            self.charge_steps(_STEPS_PER_ITEM * count * times)
            steps += _STEPS_PER_ITEM * count
            inner_containers: list[Any] = []
            for items in _children_of(level):
                kinds = set(map(type, items))
                charged_amounts = self._charge_items(items, kinds, times)
                steps, chars = steps + charged_amounts[0], chars + charged_amounts[1]
                if inner_kinds := kinds & _CONTAINERS:
                    container_count = sum([countOf(map(type, items), kind) for kind in inner_kinds])
                    container_steps = _STEPS_PER_CONTAINER * container_count
                    self.charge_steps(container_steps * times)
                    steps += container_steps
                    inner_containers += [item for item in items if item.__class__ in _CONTAINERS]
            level = []
            for item in inner_containers:
                cached_weight = self._weights.get(id(item))
                if cached_weight is None:
                    level.append(item)
                else:
                    self._charge_weight(cached_weight, times)
                    steps, chars = steps + cached_weight.steps, chars + cached_weight.chars
        return _Weight(container, steps, chars)

    def _charge_items(self, items: Collection[Any], kinds: set[type], times: int) -> tuple[int, int]:
        """Charge for reading numbers and strings ``times`` times, and check them. All items of a type are charged at
        once, as a call for each would take longer.

        Return the steps and characters charged for one of the ``times``.
        """
        steps = chars = 0
        if float in kinds:
            steps = _STEPS_PER_FLOAT * countOf(map(type, items), float)
            self.charge_steps(steps * times)
        if str in kinds:
            strings = _items_of_kind(str, items, kinds)
            chars = sum(map(len, strings))
            self.charge_chars(chars * times)
            if not all(map(str.isascii, strings)):
                steps += chars // _CHARS_PER_STEP_OUTSIDE_ASCII
                self.charge_steps(chars * times // _CHARS_PER_STEP_OUTSIDE_ASCII)
                check_text("".join(strings))
        if int in kinds:
            numbers = _items_of_kind(int, items, kinds)
            check_number(min(numbers))
            check_number(max(numbers))
        return steps, chars


def _children_of(level: list[Any]) -> list[Collection[Any]]:
    """Return the items of lists, and the keys and values of mappings. Keys are a collection of their own, as all are
    strings.
    """
    if len(level) == 1:
        [container] = level
        return [container, container.values()] if container.__class__ is dict else [container]
    mappings = [container for container in level if container.__class__ is dict]
    lists = [container for container in level if container.__class__ is not dict] if mappings else level
    values = chain.from_iterable([mapping.values() for mapping in mappings])
    return [list(chain.from_iterable(mappings)), [*chain.from_iterable(lists), *values]]


def _items_of_kind(kind: type, items: Collection[Any], kinds: set[type]) -> Collection[Any]:
    return items if len(kinds) == 1 else [item for item in items if item.__class__ is kind]
