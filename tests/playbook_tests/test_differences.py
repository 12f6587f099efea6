"""What is expected of a value, and where it is another one."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.playbook_tests.differences import ABSENT, differences, is_match


@pytest.mark.parametrize(
    ("expected", "actual", "holds"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "...": "..."}, {"a": 1, "b": 2}, True),
        ({"a": "...", "...": "..."}, {"b": 2}, False),
        ([1, "..."], [1, 2, 3], True),
        ([1, 2, "..."], [1], False),
        ([1, 2], [1, 2, 3], False),
        ("a ... c", "a b c", True),
        ("...", None, True),
        (True, 1, False),
        (None, None, True),
        (1, 1.0, True),
    ],
)
def test_three_dots_match_any_rest(expected: Any, actual: Any, holds: bool) -> None:
    assert is_match(expected, actual) is holds


def test_each_difference_has_its_path() -> None:
    paths = list(differences({"a": [1, {"b": 2}], "c": 3}, {"a": [1, {"b": 4}, 5], "d": 6}))
    assert paths == [
        (("a", 1, "b"), 2, 4),
        (("a", 2), ABSENT, 5),
        (("c",), 3, ABSENT),
        (("d",), ABSENT, 6),
    ]
