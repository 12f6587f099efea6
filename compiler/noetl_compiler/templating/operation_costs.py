"""The cost of filters, tests and methods, charged before they run.

A step is the time of one addition in a plain loop; costs are measured and rounded up, for small arguments and for large
ones (dev/decisions/0071). Most filters and tests cost a fixed number of steps, per item if they iterate, plus the
characters of the text that they read. Those with a large output for a small input (``center``, ``replace``, ``split``
...), or with much work per character, have cost functions of their own here, computed from their arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from noetl_compiler.templating.budget import RenderBudget
from noetl_compiler.templating.formats import wide_float

__all__ = [
    "ATTRIBUTE_OF",
    "OF_ARGUMENTS",
    "Price",
    "searched",
    "steps_an_item",
    "steps_of",
    "steps_of_attribute",
    "text_method",
]

Price: TypeAlias = Callable[..., None]
"""A cost function: takes the meter, then the arguments of the filter."""

_STEPS = 45
_STEPS_OF = {
    **dict.fromkeys(("escape", "e", "format", "replace", "round", "title", "urlencode"), 90),
    **dict.fromkeys(("center", "indent", "truncate", "wordcount", "b64encode", "b64decode", "capitalize"), 70),
    **dict.fromkeys(("from_json", "fromjson", "filesizeformat", "to_json", "tojson", "wordwrap"), 600),
    **dict.fromkeys(("dictsort", "items", "list"), 200),
    **dict.fromkeys(("map", "reject", "rejectattr", "select", "selectattr"), 150),
}
_STEPS_AN_ITEM = {
    **dict.fromkeys(("batch", "join", "max", "min", "slice"), 25),
    **dict.fromkeys(("map", "reject", "select", "sum"), 35),
    **dict.fromkeys(("rejectattr", "selectattr"), 35),
    **dict.fromkeys(("groupby", "sort", "unique"), 45),
    "dictsort": 100,
}
_CHARS_WORKED_ON = 60
"""The cost of splitting text into words, or of inspecting each character, relative to copying it."""

_STEPS_A_PART, _STEPS_A_LINE, _CHARS_A_STEP_OF_CASE = 5, 100, 5
"""Steps for each part of a text that is split."""

_STEPS_A_BRACKET, _STEPS_A_SEPARATOR, _CHARS_A_STEP_OF_JSON = 20, 6, 5
_STEPS_NO_DIGITS, _SQUARED_DIGITS_A_STEP = 130, 4_000
_STEPS_AN_ATTRIBUTE = 25
_SHORT, _SHORT_NEEDLE, _SHORT_FOR_IT = 2_500, 100, 30_000
"""Python searches texts of up to these lengths, and any text from its end, by trying every position: the cost is up to
the product of both lengths. Otherwise it is about that of reading the text."""

_COMPARED_A_STEP, _STRIPPED_A_STEP = 50, 800
_SEARCHING = frozenset({"count", "find", "index", "partition", "replace", "split"})
_SEARCHING_BACK = frozenset({"rfind", "rindex", "rpartition", "rsplit"})
_STRIPPING = frozenset({"lstrip", "rstrip", "strip"})

_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def steps_of(name: str) -> int:
    """Return the fixed cost of a filter or test, in steps."""
    return _STEPS_OF.get(name, _STEPS)


def steps_an_item(name: str) -> int:
    """Return the steps per item of a filter that iterates over its input, 0 for any other."""
    return _STEPS_AN_ITEM.get(name, 0)


_ONLY_BY_NAME = 9
ATTRIBUTE_OF = {
    **dict.fromkeys(("groupby", "rejectattr", "selectattr", "sum"), 0),
    **dict.fromkeys(("join", "max", "min", "unique"), 1),
    "sort": 2,
    "map": _ONLY_BY_NAME,
}
"""Filter -> the position of the argument that names an attribute, unless it is given by its name."""


def steps_of_attribute(position: int, args: tuple[Any, ...], named: dict[str, Any]) -> int:
    """Return the steps per item to look up an attribute: ``a.b`` has two parts, ``a,b`` too."""
    attribute = named.get("attribute", args[position] if len(args) > position else None)
    if not isinstance(attribute, str):
        return 0
    return _STEPS_AN_ATTRIBUTE * (1 + attribute.count(".") + attribute.count(","))


def _batch(meter: RenderBudget, _items: Any, count: Any, _fill: Any = None) -> None:
    meter.step(_amount(count))


def _center(meter: RenderBudget, _text: Any, width: Any = 80) -> None:
    meter.chars(_amount(width))


def _indent(meter: RenderBudget, text: Any, width: Any = 4, _first: bool = False, _blank: bool = False) -> None:
    meter.chars(_amount(width) * (_lines(str(text)) + 1))


def _listed(meter: RenderBudget, value: Any) -> None:
    meter.step(len(value) if isinstance(value, str) else 0)


def searched(meter: RenderBudget, needle: Any, text: Any) -> None:
    """Charge for searching for one text in another."""
    if isinstance(needle, str) and isinstance(text, str):
        long, short = len(text), len(needle)
        if long < _SHORT or (short < _SHORT_NEEDLE and long < _SHORT_FOR_IT):
            meter.step(long * short // _COMPARED_A_STEP)


def _searched_back(meter: RenderBudget, needle: str, text: str) -> None:
    meter.step(len(text) * len(needle) // _COMPARED_A_STEP)


def _from_json(meter: RenderBudget, text: Any) -> None:
    if isinstance(text, str):
        meter.step(_STEPS_A_BRACKET * (text.count("[") + text.count("{")))
        meter.step(_STEPS_A_SEPARATOR * (text.count(",") + text.count(":")) + len(text) // _CHARS_A_STEP_OF_JSON)


def _trim(meter: RenderBudget, text: Any, chars: Any = None) -> None:
    if chars:
        meter.step(len(str(text)) // _CHARS_A_STEP_OF_CASE + len(str(text)) * len(str(chars)) // _STRIPPED_A_STEP)


def _replace(meter: RenderBudget, text: Any, old: Any, new: Any, _count: Any = None) -> None:
    whole = str(text)
    searched(meter, str(old), whole)
    meter.chars(len(whole) + whole.count(str(old)) * len(str(new)))


def _round(meter: RenderBudget, number: Any, precision: Any = 0, _method: str = "common") -> None:
    meter.long_number(4 * _amount(precision))
    if isinstance(number, float):
        meter.step(wide_float(number))


def _number(meter: RenderBudget, value: Any, *_rest: Any, **_named: Any) -> None:
    """Charge for reading a number: conversion to binary takes time in proportion to the square of the digits."""
    if isinstance(value, str):
        meter.step(len(value) * len(value) // _SQUARED_DIGITS_A_STEP)
        if not value.isdigit():
            meter.step(_STEPS_NO_DIGITS)
    elif isinstance(value, float):
        meter.step(wide_float(value))


def _case_mapped(meter: RenderBudget, text: Any) -> None:
    """Charge for changing the case of text outside of ASCII, where one letter may become several ("ß" is "SS")."""
    if isinstance(text, str) and not text.isascii():
        meter.step(2 * len(text))


def _words(meter: RenderBudget, text: Any, *_rest: Any) -> None:
    meter.chars(_CHARS_WORKED_ON * len(str(text)))


def _wordwrap(
    meter: RenderBudget, text: Any, width: Any = 79, _long: bool = True, wrapstring: Any = None, _hyphens: bool = True
) -> None:
    """Charge for wrapping: a word longer than a line is cut repeatedly, and its rest copied each time."""
    whole = str(text)
    longest, line = max(map(len, whole.split()), default=0), max(1, _amount(width))
    meter.chars(_CHARS_WORKED_ON * len(whole) + longest * longest // (2 * line))
    meter.step(_STEPS_A_LINE * (len(whole) // line))
    meter.chars((len(whole) // line + _lines(whole) + 1) * _amount(wrapstring or "\n"))


OF_ARGUMENTS: dict[str, Price] = {
    "batch": _batch,
    "capitalize": _case_mapped,
    "center": _center,
    "filesizeformat": _number,
    "float": _number,
    "from_json": _from_json,
    "fromjson": _from_json,
    "in": searched,
    "indent": _indent,
    "int": _number,
    "list": _listed,
    "lower": _case_mapped,
    "replace": _replace,
    "round": _round,
    "slice": _batch,
    "title": _words,
    "trim": _trim,
    "upper": _case_mapped,
    "urlencode": _words,
    "wordcount": _words,
    "wordwrap": _wordwrap,
}
"""Filter -> its cost function, for filters that cost more than reading their input."""


def text_method(meter: RenderBudget, name: str, text: str, args: tuple[Any, ...]) -> None:
    """Charge for a method of a text whose result is larger than the text, or has many parts."""
    if args and isinstance(args[0], str):
        _looked_through(meter, name, text, args[0])
    match name, args:
        case "center" | "ljust" | "rjust" | "zfill", (int(width), *_):
            meter.chars(max(0, width))
        case "replace", (str(old), str(new), *_):
            meter.chars(text.count(old) * len(new))
        case "split" | "rsplit", (str(separator), *_) if separator:
            meter.step(_STEPS_A_PART * text.count(separator))
        case "split" | "rsplit", _:
            meter.step(_STEPS_A_PART * (len(text) // 2))
        case "splitlines", _:
            meter.step(_STEPS_A_PART * _lines(text))
        case "title" | "encode" | "swapcase" | "casefold" | "capitalize" | "lower" | "upper", _:
            meter.step(len(text) // _CHARS_A_STEP_OF_CASE)
            _case_mapped(meter, text)
        case _:
            pass
    if not text.isascii():
        meter.chars(3 * len(text))  # changing the case of a letter yields up to three


def _looked_through(meter: RenderBudget, name: str, text: str, sought: str) -> None:
    if name in _SEARCHING:
        searched(meter, sought, text)
    elif name in _SEARCHING_BACK:
        _searched_back(meter, sought, text)
    elif name in _STRIPPING:
        _trim(meter, text, sought)


def _lines(text: str) -> int:
    return sum(map(text.count, _LINE_ENDS))


def _amount(value: Any) -> int:
    return abs(value) if isinstance(value, int) else len(value) if isinstance(value, str) else 0
