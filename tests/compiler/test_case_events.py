"""At which events the condition of a case rule may hold."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl_compiler.dialects.case.events import extend_condition, matching_events
from noetl_compiler.graph import Span, Template
from noetl_compiler.language.events import CASE_EVENTS
from noetl_compiler.templates import predicate


def condition(source: str) -> Template:
    return Template(source, Span(1, 1, 1, 2))


@pytest.mark.parametrize(
    ("when", "events"),
    [
        ("{{ event.name == 'call.done' and response is defined }}", {"call.done"}),
        ("{{ event.name in ['step.exit', 'call.done'] and response.a }}", {"step.exit", "call.done"}),
        ("{{ event.name not in ('step.enter', 'loop.item', 'loop.done') }}", {"call.done", "call.error", "step.exit"}),
        ("{{ event.name != 'call.error' and event.name != 'step.exit' and 'call.done' == event.name }}", {"call.done"}),
        ("{{ event['name'] == 'loop.done' or result.n > 1 }}", set(CASE_EVENTS)),
        ("{{ not event.name == 'call.done' and event.name in ['call.done', 'loop.item'] }}", {"loop.item"}),
        ("{{ event.name == 'call.error' and error.status in [502, 503] }}", {"call.error"}),
        # before there was call.error, call.done came after a failure as well
        ("{{ event.name == 'call.done' and error is defined and error.status == 503 }}", {"call.error"}),
        ("{{ event.name == 'step.exit' and error.status == 503 }}", {"call.error"}),
        ("{{ event.name == 'call.done' and error is not defined }}", {"call.done"}),
        (
            "{{ event.name == 'call.done' and (error is not defined or error.status == 404) }}",
            {"call.done", "call.error"},
        ),
        # without the event's name: after calls
        ("{{ result.count > 0 }}", {"call.done"}),
        ("{{ error is defined }}", {"call.error"}),
        ("true", {"call.done"}),
        ("{{ false }}", set[str]()),
        ("{{ event.name == 'call.finished' }}", set[str]()),
        # what cannot be read is left to the check of templates
        ("{{ event.name == ", {"call.done"}),
        ("{{ event.name }} {{ error }}", {"call.done", "call.error"}),
    ],
)
def test_a_condition_may_hold_at_these_events(when: str, events: set[str]) -> None:
    assert matching_events(condition(when)) == events


def test_no_condition_answers_to_calls() -> None:
    assert matching_events(None) == {"call.done"}


ATOMS = ["a", "b", *(f"event.name == '{event}'" for event in CASE_EVENTS), "event.name in ['call.done']"]


def join_condition(parts: tuple[str, str, str]) -> str:
    return f"({parts[0]}) {parts[1]} ({parts[2]})"


def combine(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    negation = inner.map(lambda operand: f"not ({operand})")
    return st.one_of(negation, st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(join_condition))


@given(st.recursive(st.sampled_from(ATOMS), combine, max_leaves=6), st.booleans(), st.booleans())
def test_a_condition_never_holds_at_an_event_it_does_not_answer_to(source: str, a: bool, b: bool) -> None:
    when = f"{{{{ {source} }}}}"
    if "event" not in source:
        return
    for event in set(CASE_EVENTS) - matching_events(condition(when)):
        assert not predicate(when, {"event": {"name": event}, "a": a, "b": b}).matched


@pytest.mark.parametrize(
    ("when", "also"),
    [
        ("{{ event.name == 'call.done' and x }}", "{{ event.name in ['call.done', 'call.error'] and x }}"),
        ('{{event.name=="call.done"}}', "{{event.name in ['call.done', 'call.error']}}"),
        ("{{ event.name == 'step.exit' }}", "{{ event.name == 'step.exit' }}"),
    ],
)
def test_another_event_is_ignored(when: str, also: str) -> None:
    assert extend_condition(condition(when), "call.done", "call.error").source == also
