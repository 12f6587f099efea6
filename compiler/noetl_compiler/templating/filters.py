"""The filters and tests of templates: Jinja's deterministic ones, and those that NoETL playbooks use.

Each is wrapped to charge the rendering's budget: for its input before the call, for its result after it. The costs are
in operation_costs.py.
"""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any, cast

import markupsafe
from jinja2 import pass_context
from jinja2.filters import FILTERS as JINJA_FILTERS
from jinja2.filters import make_attrgetter
from jinja2.runtime import Undefined
from jinja2.tests import TESTS as JINJA_TESTS

from noetl_compiler.secret_references import MARK
from noetl_compiler.templating.budget import TOO_MANY_BITS, NotDataError, RenderBudget
from noetl_compiler.templating.formats import format_percent
from noetl_compiler.templating.materialise import materialise, to_text
from noetl_compiler.templating.operation_costs import (
    ATTRIBUTE_POSITIONS,
    COST_FUNCTIONS,
    charge_search,
    steps_of,
    steps_of_attribute,
    steps_per_item_of,
)
from noetl_compiler.templating.secret import Secret, SecretUseError
from noetl_compiler.templating.undefined import Absent

__all__ = [
    "CHARGE_BODY",
    "CHARGE_VALUE",
    "CONCATENATE",
    "CONTAINS",
    "COUNT_ITEMS",
    "FALSE_IF_UNDEFINED",
    "FILTERS",
    "TESTS",
    "TO_STRING",
]

# Names of the filters in the rewritten tree. They contain a space, so that no template can call them:
# {{ '' | charge_body(-1) }} would increase its own budget.
TO_STRING, CONCATENATE, COUNT_ITEMS = "to string", "concatenate parts", "count items"
CONTAINS, CHARGE_VALUE, CHARGE_BODY = "contained in", "charge value", "charge body"
FALSE_IF_UNDEFINED = "false if undefined"

_STEPS_PER_STRING, _STEPS_PER_TRUTH_TEST = 13, 8
_READS_OF_JSON, _READS_OF_INDENTED_JSON = 2, 15
"""The cost of encoding a value as JSON, relative to reading it."""

_MAX_DIGITS = 300

_DETERMINISTIC_FILTERS = """
    abs batch capitalize center count d default dictsort filesizeformat first float groupby indent int items
    last length list lower map max min reject rejectattr replace reverse round select selectattr slice sort
    title trim truncate unique upper urlencode wordcount wordwrap
"""
_DETERMINISTIC_TESTS = """
    != < <= == > >= boolean defined divisibleby eq equalto even false filter float ge greaterthan gt in
    integer iterable le lessthan lower lt mapping ne none number odd sequence string test true undefined upper
"""

_DEEP_READING = """
    != < <= == > >= dictsort eq equalto ge greaterthan groupby gt in le lessthan lower lt max min ne sort unique
    upper
"""
"""Filters and tests that read their input recursively."""

_CONSTANT_COST = """
    boolean count d default defined divisibleby even false first last length mapping none number odd sequence
    true undefined
"""
"""Filters and tests of constant cost."""


_FIRST_ARGUMENT: dict[str, Callable[[Any], Any] | None] = {
    "context": lambda context: context,
    "environment": lambda context: context.environment,
    "eval_context": lambda context: context.eval_ctx,
    "nothing": None,
}
"""Kind of the first argument that Jinja passes to a filter -> how to get it from the context."""


def _wrap_with_charges(name: str, function: Any) -> Any:
    """Wrap a filter or test to charge the budget. The wrapper takes the context even if ``function`` does not."""
    function = inspect.unwrap(function)  # Jinja wraps some filters to choose between a plain function and a coroutine
    first_argument = _FIRST_ARGUMENT[getattr(getattr(function, "jinja_pass_arg", None), "name", "nothing")]
    steps, steps_per_item, charge_arguments = steps_of(name), steps_per_item_of(name), COST_FUNCTIONS.get(name)
    position = ATTRIBUTE_POSITIONS.get(name)
    charge = _charge_function(name)

    @pass_context
    def charge_and_call(context: Any, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        budget: RenderBudget = context.budget
        budget.charge_steps(steps)
        if steps_per_item:
            steps_each = (
                steps_per_item if position is None else steps_per_item + steps_of_attribute(position, args, kwargs)
            )
            value = _charge_iteration(value, budget, steps_each)
        if charge is not _charge_nothing:
            charge(budget, value)
            for argument in args:
                charge(budget, argument)
        if charge_arguments:
            charge_arguments(budget, value, *args, **kwargs)
        leading_arguments = (first_argument(context), value) if first_argument else (value,)
        result = function(*leading_arguments, *args, **kwargs)
        if charge is RenderBudget.charge_deep_read and value.__class__ in (list, tuple):
            budget.charge_read(result)  # its items have just been charged
        elif charge is not _charge_nothing:  # filters of constant cost return part of their input
            budget.charge_deep_read(result)
        return result

    return charge_and_call


def _charge_iteration(value: Any, budget: RenderBudget, steps: int) -> Any:
    """Charge for iterating over ``value``: at once if it has a length, otherwise item by item."""
    if isinstance(value, Sized):
        budget.charge_steps(steps * len(value))
        return value
    is_stream = isinstance(value, Iterator)
    return _charge_each(cast("Iterator[Any]", value), budget, steps) if is_stream else value


def _charge_each(items: Iterator[Any], budget: RenderBudget, steps: int) -> Iterator[Any]:
    for item in items:
        budget.charge_steps(steps)
        yield item


def _charge_nothing(_budget: RenderBudget, _value: Any) -> None:
    """Charge nothing."""


def _charge_function(name: str) -> Callable[[RenderBudget, Any], None]:
    if name in _CONSTANT_COST.split():
        return _charge_nothing
    return RenderBudget.charge_deep_read if name in _DEEP_READING.split() else RenderBudget.charge_read


@pass_context
def _format(context: Any, value: Any, *args: Any, **kwargs: Any) -> str:
    return format_percent(context.budget, to_text(value, context.budget), kwargs or args)


@pass_context
def _join(context: Any, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    budget: RenderBudget = context.budget
    items = value if attribute is None else map(make_attrgetter(context.environment, attribute), value)
    parts = [to_text(item, budget) for item in items]
    budget.charge_chars(len(parts) * len(d))
    return d.join(parts)


@pass_context
def _sum(context: Any, iterable: Iterable[Any], attribute: str | int | None = None, start: Any = 0) -> Any:
    items = iterable if attribute is None else map(make_attrgetter(context.environment, attribute), iterable)
    total = start
    for item in items:
        context.budget.charge_steps()
        total = context.environment.call_binop(context, "+", total, item)
    return total


@pass_context
def _tojson(context: Any, value: Any, indent: int | None = None) -> str:
    """Return JSON with sorted keys, escaped for quotes and HTML as by Jinja's own filter."""
    text = _to_json(context, value, indent, sort_keys=True)
    for char in "<>&'":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


@pass_context
def _to_json(context: Any, value: Any, indent: int | None = None, sort_keys: bool = False) -> str:
    if isinstance(value, Secret):
        return value.as_json()
    context.budget.charge_deep_read(value, _READS_OF_JSON if indent is None else _READS_OF_INDENTED_JSON)
    data = materialise(value, context.budget)
    if indent is None:
        return json.dumps(data, sort_keys=sort_keys)
    context.budget.charge_chars(len(indent) if isinstance(indent, str) else abs(indent))
    parts: list[str] = []
    for part in json.JSONEncoder(indent=indent, sort_keys=sort_keys).iterencode(data):
        context.budget.charge_chars(len(part))
        parts.append(part)
    return "".join(parts)


def _from_json(value: Any) -> Any:
    if not isinstance(value, str | bytes):
        return value
    return json.loads(value, parse_int=_parse_integer) if len(value) > _MAX_DIGITS else json.loads(value)


def _parse_integer(digits: str) -> int:
    """Refuse more digits than any integer of 64 bits has, even with leading zeros, before the slow conversion."""
    if len(digits) > _MAX_DIGITS:
        raise NotDataError(TOO_MANY_BITS)
    return int(digits)


@pass_context
def _string(context: Any, value: Any) -> str:
    return to_text(value, context.budget)


@pass_context
def _b64encode(context: Any, value: Any) -> str:
    data = value if isinstance(value, bytes) else to_text(value, context.budget).encode()
    if MARK.encode() in data:
        raise SecretUseError("a secret cannot be encoded in a template: name it in auth, with type: basic")
    return base64.b64encode(data).decode("ascii")


def _b64decode(value: str) -> str:
    return base64.b64decode(value, validate=True).decode("utf-8")


@pass_context
def _escape(context: Any, value: Any) -> str:
    """Escape HTML. Returns a string instead of Jinja's Markup, which would also escape text that is added to it."""
    return str(markupsafe.escape(to_text(value, context.budget)))


@pass_context
def _to_string(context: Any, value: Any, literal_chars: int = 0) -> str:
    budget: RenderBudget = context.budget
    budget.charge_steps(_STEPS_PER_STRING)
    if literal_chars:
        budget.charge_chars(literal_chars)
    return to_text(value, budget)


@pass_context
def _concatenate(context: Any, parts: list[Any]) -> str:
    context.budget.charge_steps(_STEPS_PER_STRING * (len(parts) + 1))
    return "".join([to_text(part, context.budget) for part in parts])


@pass_context
def _contains(context: Any, container: Any, item: Any) -> bool:
    """Evaluate ``item in container``."""
    context.budget.charge_deep_read(item)
    context.budget.charge_deep_read(container)
    charge_search(context.budget, item, container)
    return item in container


@pass_context
def _charge_value(context: Any, value: Any, is_searched: bool = False) -> Any:
    context.budget.charge_deep_read(value)
    if is_searched and isinstance(value, str):
        charge_search(context.budget, value[: len(value) // 2], value)  # the needle is unknown here: assume the worst
    return value


class _ChargedItems:
    """An iterable that charges the cost of one pass through the loop's body for each item."""

    __slots__ = ("_budget", "_items", "_steps_per_item")

    def __init__(self, items: Any, budget: RenderBudget, steps: int) -> None:
        self._items = items
        self._budget = budget
        self._steps_per_item = steps

    def __iter__(self) -> Any:
        for item in self._items:
            self._budget.charge_steps(self._steps_per_item)
            yield item

    def __len__(self) -> int:
        return len(self._items)


@pass_context
def _count_items(context: Any, items: Any, steps: int) -> _ChargedItems:
    return _ChargedItems(items, context.budget, steps)


@pass_context
def _charge_body(context: Any, empty: str, steps: int) -> str:
    context.budget.charge_steps(steps)
    return empty


@pass_context
def _false_if_undefined(context: Any, value: Any) -> Any:
    context.budget.charge_steps(_STEPS_PER_TRUTH_TEST)
    return False if isinstance(value, Undefined) else value


def _is_none(value: Any) -> bool:
    return value is None or isinstance(value, Absent)


_NOETL_FILTERS: dict[str, Callable[..., Any]] = {
    "b64decode": _b64decode,
    "b64encode": _b64encode,
    "e": _escape,
    "escape": _escape,
    "format": _format,
    "from_json": _from_json,
    "fromjson": _from_json,
    "join": _join,
    "string": _string,
    "sum": _sum,
    "to_json": _to_json,
    "tojson": _tojson,
}

FILTERS: dict[str, Callable[..., Any]] = {
    **{name: _wrap_with_charges(name, JINJA_FILTERS[name]) for name in _DETERMINISTIC_FILTERS.split()},
    **{name: _wrap_with_charges(name, function) for name, function in _NOETL_FILTERS.items()},
    TO_STRING: _to_string,
    CONCATENATE: _concatenate,
    COUNT_ITEMS: _count_items,
    FALSE_IF_UNDEFINED: _false_if_undefined,
    CONTAINS: _contains,
    CHARGE_BODY: _charge_body,
    CHARGE_VALUE: _charge_value,
}

TESTS: dict[str, Callable[..., Any]] = {
    name: _wrap_with_charges(name, {**JINJA_TESTS, "none": _is_none}[name]) for name in _DETERMINISTIC_TESTS.split()
}
