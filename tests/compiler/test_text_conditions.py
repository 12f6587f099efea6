"""Comparisons outside the braces become the expressions that were meant."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler import compile_text
from noetl_compiler.dialects.text_conditions import as_single_template, compares_outside_braces
from noetl_compiler.dialects.values import combine_conditions
from noetl_compiler.graph import Span, Template
from noetl_compiler.templates import predicate

SCOPE: dict[str, Any] = {"action": "deploy", "on": True, "off": "false", "code": 200, "size": 3, "name": "a b"}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("{{ action }} == deploy", True),
        ("{{ action }} == destroy", False),
        ("{{ action }} != destroy", True),
        ("{{ on }} == true", True),
        ("{{ on }} != True", False),
        ("{{ off }} == false", True),
        ("{{ code }} == 200", True),
        ("{{ size }} > 2", True),
        ("{{ size }} <= 2.5", False),
        ("{{ name }} == 'a b'", True),
        ('"a b" == {{ name }}', True),
        ("{{ action }} == {{ action }}", True),
        ("{{ off }} == true or {{ action }} == deploy", True),
        ("{{ on }} and {{ action }} == destroy", False),
        ("not ({{ action }} == destroy)", True),
        ("{{ action | upper }} == DEPLOY", True),
        ("{{ -size }} < 0", True),
        ("{{- size -}} > 0", True),
    ],
)
def test_the_comparison_is_made(text: str, holds: bool) -> None:
    source = as_single_template(text)
    assert source is not None
    assert predicate(source, SCOPE).matched is holds


@pytest.mark.parametrize(
    "text", ["{{ a }} = 3 == y", "{{ a }} == b; c", "{% if a %}1{% endif %} == 1", "{{ a }} b == c"]
)
def test_unknown_words_are_no_comparison(text: str) -> None:
    assert as_single_template(text) is None


@pytest.mark.parametrize("text", ["{{ a == 1 }}", "{{ a }} and more", "true", "{{ '==' }}", "{{ a }}{# == #}"])
def test_texts_without_a_comparison_outside_braces_are_not_changed(text: str) -> None:
    assert not compares_outside_braces(text)


@given(st.text(alphabet="{}=!<>'\" ab1.(|)%#\n", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    source = as_single_template(text)
    assert source is None or source.startswith("{{ ")


TWO_CONDITIONS = """
metadata: {name: x}
workload: {a: x}
workflow:
  - step: start
    tool: {kind: noop}
    next:
      arcs:
        - {step: end, when: "{{ workload.a }} == x"}
        - {step: end, when: "{{ workload.a }} == y"}
"""


def test_the_hint_for_a_comparison_outside_braces_is_reported_once() -> None:
    diagnostics = [
        diagnostic.hint for diagnostic in compile_text(TWO_CONDITIONS).diagnostics if "outside" in diagnostic.message
    ]
    assert diagnostics == ["write \"{{ (workload.a) | string == 'x' }}\""]


def test_combined_conditions_keep_their_signs() -> None:
    span = Span(1, 1, 1, 2)
    combined = combine_conditions(Template("{{- -a > 3 }}", span), Template("{{ +b -}}", span))
    assert combined == Template("{{ (-a > 3) and (+b) }}", span)
