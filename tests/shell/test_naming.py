"""Names that Temporal sees: short, unique whatever a playbook is called, and found again without being parsed."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_temporal.naming import child_workflow_id, keyword, summary, workflow_id

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=300) | st.sampled_from(
    ["a/b", "a%2Fb", "~" + "0" * 32]
)
PARTS = st.lists(TEXT, min_size=1, max_size=3)


def test_names_of_ordinary_length_stay_as_they_are() -> None:
    assert workflow_id("examples/hello", 7) == "examples/hello/7"
    assert child_workflow_id("examples/hello/7", "fetch", "1") == "examples/hello/7/fetch/1"
    assert keyword("examples/hello") == "examples/hello"
    assert summary("fetch [http] page 3") == "fetch [http] page 3"


@pytest.mark.parametrize("letter", ["p", "ü", "雪", "🙂"])
def test_long_names_are_truncated_and_stay_unique(letter: str) -> None:
    first, second = workflow_id(letter * 300, 7), workflow_id(letter * 301, 7)
    assert first != second
    assert first.endswith("/7")
    assert 190 <= len(first.encode()) <= 200
    child = child_workflow_id(first, letter * 300, "1")
    assert child != child_workflow_id(first, letter * 300, "2")
    assert 190 <= len(child.encode()) <= 200
    assert len(keyword(letter * 300).encode()) <= 255


def test_names_with_separators_stay_unique() -> None:
    assert child_workflow_id("p/7", "c/1", "1") != child_workflow_id("p/7", "c", "1", "1")
    assert child_workflow_id("p/7", "c/1") != child_workflow_id("p/7", "c%2F1")


def test_a_name_that_looks_truncated_has_another_id() -> None:
    cut = workflow_id("p" * 300, 7).removesuffix("/7")
    assert workflow_id(cut, 7) != workflow_id("p" * 300, 7)


@given(PARTS, PARTS)
def test_different_parts_give_different_ids(first: list[str], second: list[str]) -> None:
    case, other = child_workflow_id("p/7", *first), child_workflow_id("p/7", *second)
    assert (case == other) == (first == second)
    assert len(case.encode()) <= 200
    assert "\0" not in case


@given(TEXT)
def test_summaries_and_ids_are_within_limits_of_temporal(text: str) -> None:
    assert len(workflow_id(text, 1 << 62).encode()) <= 200
    assert len(keyword(text).encode()) <= 255
    assert len(msgspec.json.encode(summary(text))) <= 400
    assert "\n" not in summary(text)
