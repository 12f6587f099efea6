"""What conditions come to after a call, and that the names of events are those which the machine binds."""

from __future__ import annotations

import pytest

from noetl_compiler.language.events import NAMES
from noetl_compiler.templating.analysis import analyse_template
from noetl_compiler.templating.non_boolean import NonBoolean
from noetl_compiler.templating.outcome_truths import WORDS
from noetl_temporal.machine.views import EventName


@pytest.mark.parametrize(
    ("source", "ok", "error"),
    [
        ("{{ output.status == 'ok' }}", True, False),
        ("{{ outcome['status'] == 'error' }}", False, True),
        ("{{ 'ok' == output.status }}", True, False),
        ("{{ output.status != 'ok' }}", False, True),
        ("{{ output.status in ['ok', 'error'] }}", True, True),
        ("{{ output.status not in ['ok'] }}", False, True),
        ("{{ output.status == 'ok' and workload.x }}", None, False),
        ("{{ output.status == 'ok' or workload.x }}", True, None),
        ("{{ not (output.status == 'ok' and workload.x) }}", None, True),
        ("{{ output.status == workload.x }}", None, None),
        ("{{ success }}", True, False),
        ("{{ not success }}", False, True),
        ("{{ error }}", False, None),
        ("{{ error is defined }}", False, True),
        ("{{ error is not defined }}", True, False),
        ("{{ error.status == 429 }}", False, None),
        ("{{ last_error }}", False, None),
        ("{{ last_error is none }}", True, False),
        ("{{ last_error is not none }}", False, True),
        ("{{ workload.x is none }}", None, None),
        ("{{ event.name == 'call.done' }}", True, False),
        ("{{ event.name == 'step.failed' }}", False, True),
        ("{{ event.name != 'call.done' }}", False, True),
        ("{{ event.name in ('call.done', 'call.error') }}", True, True),
        ("{{ event.name in workload.events }}", None, None),
        ("{{ workload.x }}", None, None),
        ("{{ output.status == 'ok' }}{{ 1 }}", None, None),
        ("{{ output.status == }}", None, None),
    ],
)
def test_the_value_of_a_condition_after_a_call(source: str, ok: bool | None, error: bool | None) -> None:
    truths = analyse_template(source).truths
    assert (truths.ok, truths.error) == (ok, error)


@pytest.mark.parametrize(
    ("event_name", "names"),
    [
        ("step.enter", "step.enter"),
        ("step.done", "step.done call.done step.exit loop.item"),
        ("step.failed", "step.failed call.error step.exit"),
        ("loop.done", "loop.done step.done step.exit"),
        ("loop.failed", "loop.failed step.failed call.error step.exit"),
        ("step.skipped", "step.skipped step.enter"),
    ],
)
def test_an_event_equals_each_of_its_names(event_name: str, names: str) -> None:
    assert {word for word in WORDS if EventName(event_name) == word} == set(names.split())
    assert set(names.split()) <= NAMES


@pytest.mark.parametrize("other", [["step.done"], {}, None, 1])
def test_an_event_equals_nothing_that_is_not_text(other: object) -> None:
    """Its names are looked up in a set, in which a list cannot be."""
    assert EventName("step.done") != other


@pytest.mark.parametrize(
    ("source", "booleans"),
    [
        ("{{ a + 1 }}", [NonBoolean("the result of a calculation")]),
        ("{{ a == 'b' or 'c' }}", [NonBoolean("text", "c")]),
        ("{{ a if b else 0 }}", [NonBoolean("a number")]),
        ("{{ not [a] }}", [NonBoolean("a list")]),
        ("{{ a ~ 'b' }}", [NonBoolean("text")]),
        ("{{ {'a': b} }}", [NonBoolean("a mapping")]),
        ("{{ a or true }}", []),
        ("{{ a | length }}", []),
        ("{{ 'a' }}", []),
    ],
)
def test_values_that_are_neither_true_nor_false(source: str, booleans: list[NonBoolean]) -> None:
    assert list(analyse_template(source).non_boolean) == booleans
