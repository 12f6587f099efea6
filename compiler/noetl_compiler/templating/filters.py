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
from noetl_compiler.templating.formats import percent
from noetl_compiler.templating.materialise import materialise, text_of
from noetl_compiler.templating.operation_costs import (
    ATTRIBUTE_OF,
    OF_ARGUMENTS,
    searched,
    steps_an_item,
    steps_of,
    steps_of_attribute,
)
from noetl_compiler.templating.secret import Secret, SecretUseError
from noetl_compiler.templating.undefined import Absent

__all__ = [
    "AS_TEXT",
    "CONCATENATED",
    "COUNTED",
    "FALSE_IF_UNDEFINED",
    "FILTERS",
    "HELD",
    "TESTS",
    "WEIGHED",
    "WORKED",
]

# Names of the filters in the rewritten tree. They contain a space, so that no template can call them:
# {{ '' | worked(-1) }} would increase its own budget.
AS_TEXT, CONCATENATED, COUNTED = "as text", "parts concatenated", "items counted"
HELD, WEIGHED, WORKED = "held by", "value weighed", "body worked"
FALSE_IF_UNDEFINED = "false if undefined"

_STEPS_A_TEXT, _STEPS_A_QUESTION = 13, 8
_WEIGHT_OF_JSON, _WEIGHT_OF_INDENTED_JSON = 2, 15
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

_COMPARING = """
    != < <= == > >= dictsort eq equalto ge greaterthan groupby gt in le lessthan lower lt max min ne sort unique
    upper
"""
"""Filters and tests that read their input recursively."""

_IMMEDIATE = """
    boolean count d default defined divisibleby even false first last length mapping none number odd sequence
    true undefined
"""
"""Filters and tests of constant cost."""


_LEADING: dict[str, Callable[[Any], Any] | None] = {
    "context": lambda context: context,
    "environment": lambda context: context.environment,
    "eval_context": lambda context: context.eval_ctx,
    "nothing": None,
}
"""What Jinja's functions want as their first argument."""


def _metered(name: str, function: Any) -> Any:
    """Wrap a filter or test to charge the meter. The wrapper takes the context even if ``function`` does not."""
    function = inspect.unwrap(function)  # Jinja wraps some to choose between this one and one for coroutines
    leading = _LEADING[getattr(getattr(function, "jinja_pass_arg", None), "name", "nothing")]
    steps, an_item, of_arguments = steps_of(name), steps_an_item(name), OF_ARGUMENTS.get(name)
    position = ATTRIBUTE_OF.get(name)
    charge = _charge(name)

    @pass_context
    def metered(context: Any, value: Any, /, *args: Any, **kwargs: Any) -> Any:
        meter: RenderBudget = context.meter
        meter.step(steps)
        if an_item:
            each = an_item if position is None else an_item + steps_of_attribute(position, args, kwargs)
            value = _each_charged(value, meter, each)
        if charge is not _free:
            charge(meter, value)
            for argument in args:
                charge(meter, argument)
        if of_arguments:
            of_arguments(meter, value, *args, **kwargs)
        first = (leading(context), value) if leading else (value,)
        result = function(*first, *args, **kwargs)
        if charge is RenderBudget.weigh and value.__class__ in (list, tuple):
            meter.read(result)  # its items are those that have just been weighed
        elif charge is not _free:  # these give back what was there before
            meter.weigh(result)
        return result

    return metered


def _each_charged(value: Any, meter: RenderBudget, steps: int) -> Any:
    """Charge for iterating over ``value``: at once if it has a length, otherwise item by item."""
    if isinstance(value, Sized):
        meter.step(steps * len(value))
        return value
    is_stream = isinstance(value, Iterator)
    return _passing(cast("Iterator[Any]", value), meter, steps) if is_stream else value


def _passing(items: Iterator[Any], meter: RenderBudget, steps: int) -> Iterator[Any]:
    for item in items:
        meter.step(steps)
        yield item


def _free(_meter: RenderBudget, _value: Any) -> None:
    """Charge nothing."""


def _charge(name: str) -> Callable[[RenderBudget, Any], None]:
    if name in _IMMEDIATE.split():
        return _free
    return RenderBudget.weigh if name in _COMPARING.split() else RenderBudget.read


@pass_context
def _format(context: Any, value: Any, *args: Any, **kwargs: Any) -> str:
    return percent(context.meter, text_of(value, context.meter), kwargs or args)


@pass_context
def _join(context: Any, value: Iterable[Any], d: str = "", attribute: str | int | None = None) -> str:
    meter: RenderBudget = context.meter
    items = value if attribute is None else map(make_attrgetter(context.environment, attribute), value)
    parts = [text_of(item, meter) for item in items]
    meter.chars(len(parts) * len(d))
    return d.join(parts)


@pass_context
def _sum(context: Any, iterable: Iterable[Any], attribute: str | int | None = None, start: Any = 0) -> Any:
    items = iterable if attribute is None else map(make_attrgetter(context.environment, attribute), iterable)
    total = start
    for item in items:
        context.meter.step()
        total = context.environment.call_binop(context, "+", total, item)
    return total


@pass_context
def _tojson(context: Any, value: Any, indent: int | None = None) -> str:
    """JSON with sorted keys, escaped for quotes and HTML as by Jinja's own filter."""
    text = _to_json(context, value, indent, sort_keys=True)
    for char in "<>&'":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


@pass_context
def _to_json(context: Any, value: Any, indent: int | None = None, sort_keys: bool = False) -> str:
    if isinstance(value, Secret):
        return value.as_json()
    context.meter.weigh(value, _WEIGHT_OF_JSON if indent is None else _WEIGHT_OF_INDENTED_JSON)
    data = materialise(value, context.meter)
    if indent is None:
        return json.dumps(data, sort_keys=sort_keys)
    context.meter.chars(len(indent) if isinstance(indent, str) else abs(indent))
    parts: list[str] = []
    for part in json.JSONEncoder(indent=indent, sort_keys=sort_keys).iterencode(data):
        context.meter.chars(len(part))
        parts.append(part)
    return "".join(parts)


def _from_json(value: Any) -> Any:
    if not isinstance(value, str | bytes):
        return value
    return json.loads(value, parse_int=_short_integer) if len(value) > _MAX_DIGITS else json.loads(value)


def _short_integer(digits: str) -> int:
    """Convert digits in time in proportion to their number: those of an integer of 64 bits and some zeros."""
    if len(digits) > _MAX_DIGITS:
        raise NotDataError(TOO_MANY_BITS)
    return int(digits)


@pass_context
def _string(context: Any, value: Any) -> str:
    return text_of(value, context.meter)


@pass_context
def _b64encode(context: Any, value: Any) -> str:
    data = value if isinstance(value, bytes) else text_of(value, context.meter).encode()
    if MARK.encode() in data:
        raise SecretUseError("a secret cannot be encoded in a template: name it in auth, with type: basic")
    return base64.b64encode(data).decode("ascii")


def _b64decode(value: str) -> str:
    return base64.b64decode(value, validate=True).decode("utf-8")


@pass_context
def _escape(context: Any, value: Any) -> str:
    """Escape HTML. Returns text instead of Jinja's Markup, which would escape whatever is added to it."""
    return str(markupsafe.escape(text_of(value, context.meter)))


@pass_context
def _as_text(context: Any, value: Any, static: int = 0) -> str:
    meter: RenderBudget = context.meter
    meter.step(_STEPS_A_TEXT)
    if static:
        meter.chars(static)
    return text_of(value, meter)


@pass_context
def _concatenated(context: Any, parts: list[Any]) -> str:
    context.meter.step(_STEPS_A_TEXT * (len(parts) + 1))
    return "".join([text_of(part, context.meter) for part in parts])


@pass_context
def _held(context: Any, container: Any, item: Any) -> bool:
    """``item in container``."""
    context.meter.weigh(item)
    context.meter.weigh(container)
    searched(context.meter, item, container)
    return item in container


@pass_context
def _weighed(context: Any, value: Any, is_searched: bool = False) -> Any:
    context.meter.weigh(value)
    if is_searched and isinstance(value, str):
        searched(context.meter, value[: len(value) // 2], value)  # by what is not known here; that would be the worst
    return value


class _Counted:
    """An iterable that charges ``work``, the cost of one pass through the loop's body, for each item."""

    __slots__ = ("_items", "_meter", "_work")

    def __init__(self, items: Any, meter: RenderBudget, work: int) -> None:
        self._items = items
        self._meter = meter
        self._work = work

    def __iter__(self) -> Any:
        for item in self._items:
            self._meter.step(self._work)
            yield item

    def __len__(self) -> int:
        return len(self._items)


@pass_context
def _counted(context: Any, items: Any, work: int) -> _Counted:
    return _Counted(items, context.meter, work)


@pass_context
def _worked(context: Any, nothing: str, work: int) -> str:
    context.meter.step(work)
    return nothing


@pass_context
def _false_if_undefined(context: Any, value: Any) -> Any:
    context.meter.step(_STEPS_A_QUESTION)
    return False if isinstance(value, Undefined) else value


def _is_none(value: Any) -> bool:
    return value is None or isinstance(value, Absent)


_OWN: dict[str, Callable[..., Any]] = {
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
    **{name: _metered(name, JINJA_FILTERS[name]) for name in _DETERMINISTIC_FILTERS.split()},
    **{name: _metered(name, function) for name, function in _OWN.items()},
    AS_TEXT: _as_text,
    CONCATENATED: _concatenated,
    COUNTED: _counted,
    FALSE_IF_UNDEFINED: _false_if_undefined,
    HELD: _held,
    WORKED: _worked,
    WEIGHED: _weighed,
}

TESTS: dict[str, Callable[..., Any]] = {
    name: _metered(name, {**JINJA_TESTS, "none": _is_none}[name]) for name in _DETERMINISTIC_TESTS.split()
}
