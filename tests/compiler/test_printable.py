"""What a terminal would obey is shown as an escape, and everything else as it is."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler.printable import printable, printable_json, printable_line

OBEYED_CHARACTERS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("\x1b]8;;http://x\x07y", r"\x1b]8;;http://x\x07y"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("over\rwritten\x08", r"over\rwritten\x08"),
        ("user\u202etxt\u2066\u200f\u061c", r"user\u202etxt\u2066\u200f\u061c"),
        ("\u2028\u2029\ufeff\ud800", r"\u2028\u2029\ufeff\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        ("日本\u3000é 👩\u200d🔬 می\u200cرود a\xa0b", "日本\u3000é 👩\u200d🔬 می\u200cرود a\xa0b"),
        (r"\x1b is written so", r"\x1b is written so"),
    ],
)
def test_control_characters_are_escaped(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text())
def test_nothing_is_left_that_a_terminal_obeys(text: str) -> None:
    text_shown = printable(text)
    assert not OBEYED_CHARACTERS.search(text_shown)
    assert printable(text_shown) == text_shown


@given(st.text())
def test_a_printable_line_has_no_line_break(text: str) -> None:
    assert len(printable_line(text).splitlines()) <= 1


TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.recursive(TEXTS | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_json_keeps_its_value(value: object) -> None:
    text_shown = printable_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text_shown) == value
    assert not OBEYED_CHARACTERS.search(text_shown)
