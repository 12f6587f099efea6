"""Long texts of previews on several lines, with nothing lost and templates whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler.diagnostics import columns
from noetl_compiler.preview.wrapping import wrap, wrap_at_spaces


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a short text", ["a short text"]),
        ("", [""]),
        ("GET {{ workload.url }} of {{ b }}", ["GET", "{{ workload.url }}", "of {{ b }}"]),
        ("https://a/{{ workload.b }}/{{ c }}", ["https://a/", "{{ workload.b }}/", "{{ c }}"]),
        ("x == 'two words' and y", ["x == 'two words'", "and y"]),
        ("it's the step's own name", ["it's the step's", "own name"]),
        ("{{ a_name_that_is and another }}", ["{{ a_name_that_is", "and another }}"]),
        ("'this is longer than a line'", ["'this is longer", "than a line'"]),
    ],
)
def test_lines_break_between_tokens(text: str, lines: list[str]) -> None:
    assert wrap_at_spaces(text, 18) == wrap(text, 18) == lines


def test_a_long_word_is_whole_in_a_terminal_and_broken_in_a_picture() -> None:
    word = "output.data.items[0].name_of_the_first_of_all_items"
    assert wrap_at_spaces(word, 24) == [word]
    assert wrap(word, 24) == ["output.data.items[0].", "name_of_the_first_of_all", "_items"]
    assert wrap("日本" * 6, 8) == ["日本日本"] * 3


@given(st.text("ab {}'\"|.日", max_size=60), st.integers(4, 20))
def test_nothing_is_lost_and_no_line_is_too_long(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert all(columns(line.strip()) <= width for line in lines)
