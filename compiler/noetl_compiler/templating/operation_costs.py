"""The cost of filters, tests and methods, charged before they run.

A step is the time of one addition in a plain loop; costs are measured and rounded up, for small arguments and for large
ones (dev/decisions/0071). Most filters and tests cost a fixed number of steps, per item if they iterate, plus the
characters of the text that they read. Those with a large output for a small input (``center``, ``replace``, ``split``
...), or with much work per character, have cost functions below, which compute the cost from the arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from noetl_compiler.templating.budget import RenderBudget
from noetl_compiler.templating.formats import steps_of_float

__all__ = [
    "ATTRIBUTE_POSITIONS",
    "COST_FUNCTIONS",
    "CostFunction",
    "charge_search",
    "charge_text_method",
    "steps_of",
    "steps_of_attribute",
    "steps_per_item_of",
]

CostFunction: TypeAlias = Callable[..., None]
"""A function that charges the budget, its first argument; the others are the arguments of the filter."""

_DEFAULT_STEPS = 45
_STEPS_OF = {
    **dict.fromkeys(("escape", "e", "format", "replace", "round", "title", "urlencode"), 90),
    **dict.fromkeys(("center", "indent", "truncate", "wordcount", "b64encode", "b64decode", "capitalize"), 70),
    **dict.fromkeys(("from_json", "fromjson", "filesizeformat", "to_json", "tojson", "wordwrap"), 600),
    **dict.fromkeys(("dictsort", "items", "list"), 200),
    **dict.fromkeys(("map", "reject", "rejectattr", "select", "selectattr"), 150),
}
_STEPS_PER_ITEM = {
    **dict.fromkeys(("batch", "join", "max", "min", "slice"), 25),
    **dict.fromkeys(("map", "reject", "select", "sum"), 35),
    **dict.fromkeys(("rejectattr", "selectattr"), 35),
    **dict.fromkeys(("groupby", "sort", "unique"), 45),
    "dictsort": 100,
}
_CHARS_PER_INSPECTED_CHAR = 60
"""The cost of splitting text into words, or of inspecting each character, relative to copying it."""

_STEPS_PER_PART, _STEPS_PER_LINE, _CHARS_PER_STEP_OF_CASE = 5, 100, 5
"""Steps for each part of a split text and for each wrapped line, and characters whose case is mapped in one step."""

_STEPS_PER_BRACKET, _STEPS_PER_SEPARATOR, _CHARS_PER_STEP_OF_JSON = 20, 6, 5
_STEPS_IF_NOT_DIGITS, _SQUARED_DIGITS_PER_STEP = 130, 4_000
_STEPS_PER_ATTRIBUTE = 25
_SHORT_TEXT, _SHORT_NEEDLE, _SHORT_TEXT_FOR_SHORT_NEEDLE = 2_500, 100, 30_000
"""Lengths up to which Python searches a text by trying every position, at a cost of up to the product of both lengths.
It also does so for any search from the end. Other searches cost about as much as reading the text."""

_COMPARISONS_PER_STEP, _STRIP_COMPARISONS_PER_STEP = 50, 800
_SEARCHING = frozenset({"count", "find", "index", "partition", "replace", "split"})
_SEARCHING_FROM_END = frozenset({"rfind", "rindex", "rpartition", "rsplit"})
_STRIPPING = frozenset({"lstrip", "rstrip", "strip"})

_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"


def steps_of(name: str) -> int:
    """Return the fixed cost of a filter or test, in steps."""
    return _STEPS_OF.get(name, _DEFAULT_STEPS)


def steps_per_item_of(name: str) -> int:
    """Return the steps per item of a filter that iterates over its input, 0 for any other."""
    return _STEPS_PER_ITEM.get(name, 0)


_KEYWORD_ONLY = 9
"""A position that no positional argument has."""

ATTRIBUTE_POSITIONS = {
    **dict.fromkeys(("groupby", "rejectattr", "selectattr", "sum"), 0),
    **dict.fromkeys(("join", "max", "min", "unique"), 1),
    "sort": 2,
    "map": _KEYWORD_ONLY,
}
"""Filter -> the position of the argument that names an attribute, unless it is given by its name."""


def steps_of_attribute(position: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> int:
    """Return the steps per item to look up an attribute: ``a.b`` has two parts, ``a,b`` too."""
    attribute = kwargs.get("attribute", args[position] if len(args) > position else None)
    if not isinstance(attribute, str):
        return 0
    return _STEPS_PER_ATTRIBUTE * (1 + attribute.count(".") + attribute.count(","))


def _charge_batch(budget: RenderBudget, _items: Any, count: Any, _fill: Any = None) -> None:
    budget.charge_steps(_size_of(count))


def _charge_center(budget: RenderBudget, _text: Any, width: Any = 80) -> None:
    budget.charge_chars(_size_of(width))


def _charge_indent(budget: RenderBudget, text: Any, width: Any = 4, _first: bool = False, _blank: bool = False) -> None:
    budget.charge_chars(_size_of(width) * (_count_lines(str(text)) + 1))


def _charge_list(budget: RenderBudget, value: Any) -> None:
    budget.charge_steps(len(value) if isinstance(value, str) else 0)


def charge_search(budget: RenderBudget, needle: Any, text: Any) -> None:
    """Charge for searching ``text`` for ``needle``."""
    if isinstance(needle, str) and isinstance(text, str):
        text_length, needle_length = len(text), len(needle)
        if text_length < _SHORT_TEXT or (needle_length < _SHORT_NEEDLE and text_length < _SHORT_TEXT_FOR_SHORT_NEEDLE):
            budget.charge_steps(text_length * needle_length // _COMPARISONS_PER_STEP)


def _charge_search_from_end(budget: RenderBudget, needle: str, text: str) -> None:
    budget.charge_steps(len(text) * len(needle) // _COMPARISONS_PER_STEP)


def _charge_from_json(budget: RenderBudget, text: Any) -> None:
    if isinstance(text, str):
        budget.charge_steps(_STEPS_PER_BRACKET * (text.count("[") + text.count("{")))
        budget.charge_steps(
            _STEPS_PER_SEPARATOR * (text.count(",") + text.count(":")) + len(text) // _CHARS_PER_STEP_OF_JSON
        )


def _charge_trim(budget: RenderBudget, text: Any, chars: Any = None) -> None:
    if chars:
        budget.charge_steps(
            len(str(text)) // _CHARS_PER_STEP_OF_CASE + len(str(text)) * len(str(chars)) // _STRIP_COMPARISONS_PER_STEP
        )


def _charge_replace(budget: RenderBudget, text: Any, old: Any, new: Any, _count: Any = None) -> None:
    string = str(text)
    charge_search(budget, str(old), string)
    budget.charge_chars(len(string) + string.count(str(old)) * len(str(new)))


def _charge_round(budget: RenderBudget, number: Any, precision: Any = 0, _method: str = "common") -> None:
    budget.charge_long_integer(4 * _size_of(precision))
    if isinstance(number, float):
        budget.charge_steps(steps_of_float(number))


def _charge_number(budget: RenderBudget, value: Any, *_args: Any, **_kwargs: Any) -> None:
    """Charge for reading a number: conversion to binary takes time in proportion to the square of the digits."""
    if isinstance(value, str):
        budget.charge_steps(len(value) * len(value) // _SQUARED_DIGITS_PER_STEP)
        if not value.isdigit():
            budget.charge_steps(_STEPS_IF_NOT_DIGITS)
    elif isinstance(value, float):
        budget.charge_steps(steps_of_float(value))


def _charge_case_mapping(budget: RenderBudget, text: Any) -> None:
    """Charge for changing the case of text outside of ASCII, where one letter may become several ("ß" is "SS")."""
    if isinstance(text, str) and not text.isascii():
        budget.charge_steps(2 * len(text))


def _charge_words(budget: RenderBudget, text: Any, *_args: Any) -> None:
    budget.charge_chars(_CHARS_PER_INSPECTED_CHAR * len(str(text)))


def _charge_wordwrap(
    budget: RenderBudget, text: Any, width: Any = 79, _long: bool = True, wrapstring: Any = None, _hyphens: bool = True
) -> None:
    """Charge for wrapping: a word longer than a line is split repeatedly, and the remainder is copied each time."""
    string = str(text)
    longest, line = max(map(len, string.split()), default=0), max(1, _size_of(width))
    budget.charge_chars(_CHARS_PER_INSPECTED_CHAR * len(string) + longest * longest // (2 * line))
    budget.charge_steps(_STEPS_PER_LINE * (len(string) // line))
    budget.charge_chars((len(string) // line + _count_lines(string) + 1) * _size_of(wrapstring or "\n"))


COST_FUNCTIONS: dict[str, CostFunction] = {
    "batch": _charge_batch,
    "capitalize": _charge_case_mapping,
    "center": _charge_center,
    "filesizeformat": _charge_number,
    "float": _charge_number,
    "from_json": _charge_from_json,
    "fromjson": _charge_from_json,
    "in": charge_search,
    "indent": _charge_indent,
    "int": _charge_number,
    "list": _charge_list,
    "lower": _charge_case_mapping,
    "replace": _charge_replace,
    "round": _charge_round,
    "slice": _charge_batch,
    "title": _charge_words,
    "trim": _charge_trim,
    "upper": _charge_case_mapping,
    "urlencode": _charge_words,
    "wordcount": _charge_words,
    "wordwrap": _charge_wordwrap,
}
"""Filter -> its cost function, for filters that cost more than reading their input."""


def charge_text_method(budget: RenderBudget, name: str, text: str, args: tuple[Any, ...]) -> None:
    """Charge for a method of ``text`` whose result may be larger than the text or have many parts."""
    if args and isinstance(args[0], str):
        _charge_text_search(budget, name, text, args[0])
    match name, args:
        case "center" | "ljust" | "rjust" | "zfill", (int(width), *_):
            budget.charge_chars(max(0, width))
        case "replace", (str(old), str(new), *_):
            budget.charge_chars(text.count(old) * len(new))
        case "split" | "rsplit", (str(separator), *_) if separator:
            budget.charge_steps(_STEPS_PER_PART * text.count(separator))
        case "split" | "rsplit", _:
            budget.charge_steps(_STEPS_PER_PART * (len(text) // 2))
        case "splitlines", _:
            budget.charge_steps(_STEPS_PER_PART * _count_lines(text))
        case "title" | "encode" | "swapcase" | "casefold" | "capitalize" | "lower" | "upper", _:
            budget.charge_steps(len(text) // _CHARS_PER_STEP_OF_CASE)
            _charge_case_mapping(budget, text)
        case _:
            pass
    if not text.isascii():
        budget.charge_chars(3 * len(text))  # changing the case of a letter yields up to three


def _charge_text_search(budget: RenderBudget, name: str, text: str, needle: str) -> None:
    if name in _SEARCHING:
        charge_search(budget, needle, text)
    elif name in _SEARCHING_FROM_END:
        _charge_search_from_end(budget, needle, text)
    elif name in _STRIPPING:
        _charge_trim(budget, text, needle)


def _count_lines(text: str) -> int:
    return sum(map(text.count, _LINE_ENDS))


def _size_of(value: Any) -> int:
    return abs(value) if isinstance(value, int) else len(value) if isinstance(value, str) else 0
