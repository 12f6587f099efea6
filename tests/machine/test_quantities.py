"""A value of a template as a duration, a count or a flag: what is none is the playbook's failure, in plain words."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler.graph import Span
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.quantities import MAX_COUNT, MAX_SECONDS, count, flag, seconds

PLACE = Span(3, 7, 3, 20)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0.0),
        (3, 3.0),
        (0.25, 0.25),
        ("3", 3.0),
        (" 2.5 ", 2.5),
        ("30s", 30.0),
        ("1.5m", 90.0),
        ("500ms", 0.5),
        ("2 h", 7200.0),
        ("2\x1fm", 120.0),
        ("1d", 86400.0),
        ("3650d", 3650 * 86400.0),
    ],
)
def test_values_that_are_durations(value: Any, expected: float) -> None:
    assert seconds(value, "delay", None) == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("soon", "delay is 'soon', expected seconds or a duration like 30s"),
        ("", "delay is '', expected seconds or a duration like 30s"),
        ("5 weeks", "delay is '5 weeks', expected seconds or a duration like 30s"),
        ("1e3", "delay is '1e3', expected seconds or a duration like 30s"),
        ("x" * 99, f"delay is '{'x' * 40}...', expected seconds or a duration like 30s"),
        (None, "delay is none, expected seconds or a duration like 30s"),
        (True, "delay is true, expected seconds or a duration like 30s"),
        ([1, 2], "delay is a list of 2, expected seconds or a duration like 30s"),
        ({}, "delay is a mapping of 0, expected seconds or a duration like 30s"),
        (math.nan, "delay is nan, expected seconds or a duration like 30s"),
        ("nan", "delay is 'nan', expected seconds or a duration like 30s"),
        (-1, "delay is -1, expected 0 seconds or more"),
        (-math.inf, "delay is -inf, expected 0 seconds or more"),
        (math.inf, "delay is inf, expected a duration of at most 10 years"),
        ("4000d", "delay is '4000d', expected a duration of at most 10 years"),
        (10**15, "delay is 1000000000000000, expected a duration of at most 10 years"),
        (10**4200, "delay is a whole number of 13,953 bits, expected a duration of at most 10 years"),
        ("9" * 5000, f"delay is '{'9' * 40}...', expected a duration of at most 10 years"),
        (object(), "delay is a value of type object, expected seconds or a duration like 30s"),
    ],
)
def test_values_that_are_not_durations(value: Any, message: str) -> None:
    with pytest.raises(TemplateFailure) as caught:
        seconds(value, "delay", PLACE)
    assert (caught.value.message, caught.value.span) == (message, PLACE)


@pytest.mark.parametrize(("value", "expected"), [(0, 0), (3, 3), (3.0, 3), ("3", 3), (" 12 ", 12), ("3.0", 3)])
def test_values_that_are_counts(value: Any, expected: int) -> None:
    result = count(value, "limit", None)
    assert result == expected
    assert type(result) is int


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2.5, "limit is 2.5, expected a whole number"),
        ("2.5", "limit is '2.5', expected a whole number"),
        ("5s", "limit is '5s', expected a whole number"),
        ("-1", "limit is '-1', expected a whole number"),
        (None, "limit is none, expected a whole number"),
        (False, "limit is false, expected a whole number"),
        ([], "limit is a list of 0, expected a whole number"),
        (math.nan, "limit is nan, expected a whole number"),
        (math.inf, "limit is inf, expected a whole number of at most 1,000,000,000"),
        (10**30, f"limit is a whole number of 100 bits, expected a whole number of at most {MAX_COUNT:,}"),
        (0, "limit is 0, expected a whole number of 1 or more"),
        (-(2**1328), "limit is a whole number of 1,329 bits, expected a whole number of 1 or more"),
    ],
)
def test_values_that_are_not_counts(value: Any, message: str) -> None:
    with pytest.raises(TemplateFailure) as caught:
        count(value, "limit", PLACE, minimum=1)
    assert (caught.value.message, caught.value.span) == (message, PLACE)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, True), (False, False), (1, True), (0.0, False), ("Yes", True), (" false ", False), ("1", True)],
)
def test_values_that_are_flags(value: Any, expected: bool) -> None:
    assert flag(value, "create", None) is expected


@pytest.mark.parametrize("value", [None, 2, "maybe", "", [], {}, math.nan, "0.0", 2**70])
def test_values_that_are_not_flags(value: Any) -> None:
    with pytest.raises(TemplateFailure, match=r"^create is .*, expected true or false$"):
        flag(value, "create", PLACE)


NUMBERS = st.integers() | st.floats() | st.integers(-(2**1328), 10**400)
TEXTS = st.text() | st.from_regex(r"\A\s*-?[0-9]+(\.[0-9]*)?\s*(ms|s|m|h|d|w)?\Z") | st.sampled_from(["nan", "inf"])
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5)


@pytest.mark.parametrize(("convert", "limit"), [(seconds, MAX_SECONDS), (count, MAX_COUNT), (flag, 1)])
@given(value=VALUES)
def test_any_value_is_a_quantity_within_the_limits_or_a_failure(
    convert: Callable[[Any, str, Span], float], limit: float, value: Any
) -> None:
    result = outcome(convert, value)
    if isinstance(result, TemplateFailure):
        assert result.span == PLACE
        assert result.message.startswith("delay is ")
        assert len(result.message) < 600
    else:
        assert 0 <= result <= limit


def outcome(convert: Callable[[Any, str, Span], float], value: Any) -> float | TemplateFailure:
    try:
        return convert(value, "delay", PLACE)
    except TemplateFailure as failure:
        return failure
