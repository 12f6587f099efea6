"""The policy as a table: rules and an outcome give a decision."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler.graph import Span, Value
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.call import CallRule
from noetl_temporal.machine.policy import RuleError, decide, delay_of
from noetl_temporal.machine.scope import outcome_names

BUSY = {
    "status": "error",
    "error": {"kind": "http", "message": "busy", "status": 503, "retryable": True},
    "http": {"status": 503},
}
FINE = {"status": "ok", "result": {"status_code": 200, "data": {"more": True}}, "http": {"status": 200}}


NUMBERS = ("attempts", "delay", "max_delay")
SPAN = Span(3, 5, 3, 9)


def rule(index: int, do: str, when: str | None = None, **fields: Any) -> CallRule:
    """A rule; a number that is a text is a template."""
    numbers: dict[str, Any] = {name: number(fields.pop(name)) for name in NUMBERS if name in fields}
    return CallRule(index=index, do=do, when=when, **numbers, **fields)


def number(value: Any) -> Value:
    return Value(value, {"": SPAN} if isinstance(value, str) and "{{" in value else {})


RETRY = rule(0, "retry", "{{ output.http.status in [429, 503] }}", attempts=3, delay=0.5, backoff="exponential")


@pytest.mark.parametrize(
    ("rules", "outcome", "attempts", "expected"),
    [
        ([RETRY], BUSY, 1, ("retry", 0, 0.5, False)),
        ([RETRY], BUSY, 2, ("retry", 0, 1.0, False)),
        ([RETRY], BUSY, 3, ("fail", 0, 0.0, True)),
        ([RETRY], FINE, 1, (None, None, 0.0, False)),
        ([RETRY, rule(1, "fail", "{{ output.status == 'error' }}")], BUSY, 1, ("retry", 0, 0.5, False)),
        (
            [rule(0, "fail", "{{ output.error.kind == 'sql' }}"), rule(1, "continue")],
            BUSY,
            1,
            ("continue", 1, 0.0, False),
        ),
        ([rule(0, "retry", on_status="ok"), rule(1, "fail", on_status="error")], BUSY, 1, ("fail", 1, 0.0, False)),
        ([rule(0, "again", "{{ response.more }}", on_status="ok")], FINE, 1, ("again", 0, 0.0, False)),
        ([rule(0, "retry", "{{ error.status == 503 }}")], BUSY, 2, ("retry", 0, 0.0, False)),
        ([rule(0, "retry", "{{ error.status == 503 }}")], BUSY, 3, ("fail", 0, 0.0, True)),
        ([rule(0, "retry", "{{ error is defined }}")], FINE, 1, (None, None, 0.0, False)),
    ],
)
def test_decisions(rules: list[CallRule], outcome: dict[str, Any], attempts: int, expected: tuple[Any, ...]) -> None:
    result = decide(rules, outcome["status"], outcome_names("http", outcome), attempts)
    assert (result.do, result.rule, result.delay, result.exhausted) == expected


UNREACHED_OUTCOME = {"status": "error", "error": {"kind": "connection", "message": "refused", "retryable": True}}
BY_STATUS = [
    "{{ output.http.status == 429 or output.http.status >= 500 }}",
    "{{ error.status >= 500 }}",
    "{{ last_error.status_code // 100 == 5 }}",
    "{{ response.status_code > 499 }}",
    "{{ status_code >= 500 and status_code < 600 }}",
]


@pytest.mark.parametrize("when", BY_STATUS)
def test_a_rule_about_the_status_does_not_match_if_no_server_responded(when: str) -> None:
    rules = [rule(0, "retry", when), rule(1, "continue")]
    assert decide(rules, "error", outcome_names("http", UNREACHED_OUTCOME), 1).do == "continue"
    assert decide(rules, "error", outcome_names("http", BUSY), 1).do == "retry"


def test_an_error_in_a_rule_is_a_failure_and_no_other_rule_is_evaluated() -> None:
    with pytest.raises(TemplateFailure, match="division by zero"):
        decide([rule(0, "retry", "{{ 1 / 0 }}"), rule(1, "continue")], "error", outcome_names("http", BUSY), 1)


def test_an_undefined_name_is_reported() -> None:
    result = decide([rule(0, "fail", "{{ nope.deep }}")], "ok", outcome_names("http", FINE), 1)
    assert result.rule is None
    assert result.indeterminate


def test_a_longer_retry_after_of_the_server_is_respected() -> None:
    names = outcome_names("http", BUSY)
    assert decide([RETRY], "error", names, 1, retry_after=7.0).delay == 7.0
    assert decide([RETRY], "error", names, 1, retry_after=0.1).delay == 0.5


@pytest.mark.parametrize(
    ("backoff", "delays"),
    [("none", [2, 2, 2]), ("linear", [2, 4, 6]), ("exponential", [2, 4, 8])],
)
def test_the_delay_grows_with_the_backoff(backoff: str, delays: list[float]) -> None:
    retry_rule = rule(0, "retry", delay=2.0, backoff=backoff)
    assert [delay_of(retry_rule, attempt) for attempt in (1, 2, 3)] == delays


def test_the_cap_holds_for_any_number_of_attempts_and_jitter_spreads_around_it() -> None:
    retry_rule = rule(0, "retry", delay=1.0, backoff="exponential", max_delay=60.0)
    assert delay_of(retry_rule, 5000) == 60.0
    spread = rule(0, "retry", delay=10.0, jitter=True)
    assert (delay_of(spread, 1, 0.0), delay_of(spread, 1, 1.0)) == (5.0, 15.0)


CONDITIONS = {
    "status": "error",
    "error": {"kind": "http", "message": "busy"},
    "http": {"status": 503},
    "result": {"data": {"wait": 7, "most": 2}},
}


def test_the_numbers_of_a_rule_see_what_its_condition_sees() -> None:
    wait = {"wait": "{{ output.http.status - 500 }}", "most": "{{ attempt + 1 }}"}
    retry_rule = rule(0, "retry", "{{ output.http.status == 503 }}", delay=wait["wait"], attempts=wait["most"])
    result = decide([retry_rule], "error", outcome_names("http", CONDITIONS, 1), 1)
    assert (result.do, result.delay) == ("retry", 3.0)
    capped_rule = rule(0, "retry", delay="1m", max_delay="{{ attempt * 5 }}")
    assert decide([capped_rule], "error", outcome_names("http", CONDITIONS, 2), 2).delay == 10.0


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"delay": "{{ 'soon' }}"}, "delay is 'soon', expected seconds"),
        ({"delay": "{{ 'nan' | float }}"}, "yields nan, which JSON cannot represent"),
        ({"delay": "{{ -1 }}"}, "delay is -1, expected 0 seconds or more"),
        ({"delay": "{{ absent }}"}, "absent"),
        ({"max_delay": "{{ [1] }}"}, "max_delay is a list of 1"),
        ({"attempts": "2.5"}, "attempts is '2.5', expected a whole number"),
        ({"attempts": "{{ 10 ** 12 }}"}, "attempts is 1000000000000, expected a whole number of at most"),
        ({"attempts": "{{ true }}"}, "attempts is true"),
        ({"attempts": "{{ 0 }}"}, "attempts is 0, expected a whole number of 1 or more"),
    ],
)
def test_a_value_that_is_not_a_number_fails_its_rule(fields: dict[str, Any], message: str) -> None:
    rules = [rule(3, "fail", on_status="ok"), rule(5, "retry", on_status="error", **fields)]
    with pytest.raises(RuleError, match=message) as failure:
        decide(rules, "error", outcome_names("http", CONDITIONS), 1)
    assert failure.value.rule == 5
    assert isinstance(failure.value, TemplateFailure)


def test_a_rule_that_does_not_retry_leaves_its_numbers_alone() -> None:
    assert decide([rule(0, "jump", delay="{{ absent }}")], "error", outcome_names("http", CONDITIONS), 1).do == "jump"


def test_a_delay_is_not_rendered_when_no_call_is_left() -> None:
    assert decide([rule(0, "retry", attempts=1, delay="{{ absent }}")], "error", {}, 1).exhausted
