"""Lone paths and comparisons are analysed without Jinja. The analysis must be that of the parsed template."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2.exceptions import TemplateSyntaxError

from noetl_compiler.templating.analysis import (
    TemplateAnalysis,
    _analyse_parsed,  # pyright: ignore[reportPrivateUsage] - used for all other templates
    _analyse_simple,  # pyright: ignore[reportPrivateUsage] - the function under test
)


def often(*usual: str, seldom: tuple[str, ...]) -> st.SearchStrategy[str]:
    """One of the usual texts, and sometimes one that may mislead a pattern."""
    return st.integers(0, 9).flatmap(lambda die: st.sampled_from(usual if die else seldom))


BLANKS = often("", " ", seldom=("\n", " \t", "\r\n", "\f", "\xa0"))
# fmt: off
UNUSUAL_NAMES = (
    "café", "loop", "self", "caller", "dict", "range", "null", "Null", "recursive", "item", "items", "step-1",
    "true", "True", "none", "None", "false", "not", "in", "is", "and", "or", "if", "else", "iN", "NOT",
    "output", "success", "error", "event", "__class__", "x__class__",
)
# fmt: on
NAMES = often("a", "B", "_c1", seldom=UNUSUAL_NAMES)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(".".join)
NUMBERS = often(
    "0",
    "5",
    "-1",
    "1.5",
    seldom=("- 1", "+1", "007", "00", "1_0", "0x1F", "0.50", "01.5", "1.", ".5", "1e3", "9" * 19),
)
TEXTS = often(
    "'ok'",
    '"ok"',
    seldom=("''", "'a\"b'", "'é'", "'a\nb'", r"'a\'b'", r"'\x41'", "'{{'", "'}}'", "'%}'", "'{#'", "'#'", "'"),
)
OPERATORS = often(
    "==", "!=", "<", ">", "<=", ">=", seldom=("=", "<>", "=>", "===", "in", "not in", "is", "~", "|", " and ")
)
COMPARISONS = st.tuples(PATHS, BLANKS, OPERATORS, BLANKS, st.one_of(PATHS, NUMBERS, TEXTS)).map("".join)
SOURCES = st.tuples(
    often("{{", seldom=("{{-", "{{+", "{", "x{{")),
    BLANKS,
    st.one_of(COMPARISONS, PATHS),
    BLANKS,
    often("}}", seldom=("-}}", "+}}", "}", "}} ", "}}x")),
).map("".join)


@given(SOURCES)
def test_simple_templates_have_the_same_properties_with_and_without_the_parser(source: str) -> None:
    analysis = _analyse_simple(source)
    assert analysis is None or analysis == analysis_of_parsed(source)


def analysis_of_parsed(source: str) -> TemplateAnalysis | str:
    try:
        return _analyse_parsed(source)
    except TemplateSyntaxError as error:
        return str(error)


@pytest.mark.parametrize(
    ("source", "paths"),
    [
        ("{{ a.b > 5 }}", ("a.b",)),
        ("{{ a.b == 'ok' }}", ("a.b",)),
        ("{{a.b!=-1.5}}", ("a.b",)),
        ("{{ b >= a.c }}", ("a.c", "b")),
        ("{{ a < a }}", ("a",)),
    ],
)
def test_comparisons_take_no_parser(source: str, paths: tuple[str, ...]) -> None:
    assert _analyse_simple(source) == TemplateAnalysis((), paths, (), paths)


@pytest.mark.parametrize(
    "source",
    [
        "{{ output.status == 'ok' }}",
        "{{ a == true }}",
        "{{ a > 5 and b }}",
        "{{ a.__class__ == 1 }}",
        "{{ a > 007 }}",
        "{{ 5 < a }}",
        f"{{{{ {'a' * 150} > 5 }}}}",
    ],
)
def test_other_templates_are_left_to_the_parser(source: str) -> None:
    assert _analyse_simple(source) is None
