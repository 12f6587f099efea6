"""Conditions in words: the same condition of every format has the same description, and no part is left out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler.conditions import Condition, Moment, read_condition
from noetl_compiler.graph import Span, Template
from noetl_compiler.language.words import OnStatus

SPAN = Span(7, 1, 7, 2)


def read(source: str, on_status: OnStatus = "any", moment: Moment = "call") -> Condition:
    return read_condition(Template(source, SPAN), on_status, moment)


@pytest.mark.parametrize(
    ("source", "on", "cause", "remainder"),
    [
        ("{{ output.status == 'error' and output.http.status in [429, 500] }}", "error", "429/500", ""),
        ('{{ outcome.status == "error" and (outcome.http.status in [429, 500]) }}', "error", "429/500", ""),
        ("{{ output.http.status == 429 or output.http.status >= 500 }}", "any", "429/5xx", ""),
        ("{{ status_code >= 500 and status_code < 600 }}", "any", "5xx", ""),
        ("{{ status_code | int >= 400 }}", "any", "4xx/5xx", ""),
        ("{{ output.error.retryable | default(false) }}", "any", "a retryable error", ""),
        (
            "{{ event.name == 'call.error' and error is defined and error.kind == 'x' }}",
            "error",
            "",
            "error.kind == 'x'",
        ),
        ("{{ event.name == 'step.exit' and response is defined }}", "any", "", "response is defined"),
        ("{{ event.name in ['call.done', 'step.done'] and response is defined }}", "ok", "", ""),
        ("{{ event.name == 'loop.item' and a }}", "ok", "", "a"),
        ("{{ true }}", "any", "", ""),
        ("{{- a and  b -}}", "any", "", "a and b"),
        # what cannot be cut stays whole
        ("{{ error is defined or a }}", "any", "", "error is defined or a"),
        ("{{ error is defined if a else b }}", "any", "", "error is defined if a else b"),
        ("{{ x == 'a and b' and (c and d) }}", "any", "", "x == 'a and b' and (c and d)"),
        ("{{ not (error is defined) }}", "any", "", "not (error is defined)"),
        ("{{ output.http.status in allowed }}", "any", "", "output.http.status in allowed"),
        ("{{ output.http.status != 200 }}", "any", "", "output.http.status != 200"),
        ("{{ output.status == 'error' and not error }}", "any", "", "output.status == 'error' and not error"),
        ("{{ a }} or {{ b }}", "any", "", "{{ a }} or {{ b }}"),
    ],
)
def test_a_condition_is_split_into_status_cause_and_rest(source: str, on: OnStatus, cause: str, remainder: str) -> None:
    assert read(source) == Condition(on, cause, remainder)


@pytest.mark.parametrize(
    ("name", "moment", "on"),
    [
        ("call.done", "call", "ok"),
        ("call.done", "loop", None),
        ("loop.done", "loop", "ok"),
        ("loop.done", "call", None),
        ("step.enter", "enter", "ok"),
        ("step.enter", "call", None),
        ("loop.failed", "loop", "error"),
    ],
)
def test_an_event_is_reported_where_it_happens(name: str, moment: Moment, on: OnStatus | None) -> None:
    source = f"event.name == '{name}'"
    assert read(f"{{{{ {source} }}}}", moment=moment) == (Condition(on) if on else Condition(remainder=source))


def test_a_condition_after_a_failure_keeps_a_test_for_success() -> None:
    assert read("{{ event.name == 'call.done' }}", on_status="error") == Condition(
        "error", remainder="event.name == 'call.done'"
    )


PARTS = st.sampled_from(["a.b", "x == 'p and q'", "(m or n)", "not k", "[1, 2] | length", "f('(') == ')'"])


@given(st.lists(PARTS, min_size=1, max_size=5))
def test_parts_without_an_outcome_are_all_kept_in_order(parts: list[str]) -> None:
    expression = " and ".join(parts)
    assert read(f"{{{{ {expression} }}}}") == Condition(remainder=expression)
