"""Odd values where a playbook needs a number: the run ends, and a value that is no number is reported at its place."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import pytest

from noetl_temporal.machine.call import ToolCall

from .activity import Activity
from .driver import Run, error, run_text
from .playbooks import playbook


class Place(NamedTuple):
    """A playbook that needs a number from ``{{ workload.v }}``, in the field of that name."""

    field: str
    is_duration: bool
    text: str


def step(spec: str = "", tool: str = "{kind: noop}", loop: str = "", head: str = "") -> str:
    lines = [f"spec: {spec}" if spec else "", f"loop: {loop}" if loop else "", f"tool: {tool}"]
    body = "".join(f"    {line}\n" for line in lines if line)
    return playbook(f"  - step: start\n{body}", f"{head}workload: {{v: 0}}\n")


def rule_text(then: str, when: str = "{{ true }}") -> str:
    """A task whose rule has the value."""
    policy = f'{{rules: [{{when: "{when}", then: {{{then}}}}}], on_unmatched: fail}}'
    return step(tool=f"[{{name: a, kind: noop}}, {{name: b, kind: noop, spec: {{policy: {policy}}}}}]")


def loop_text(fields: str) -> str:
    return step(loop=f"{{in: [1, 2, 3], iterator: item, {fields}}}")


def pages_text(fields: str) -> str:
    return f"""
apiVersion: noetl.io/v1
kind: Playbook
metadata: {{name: pages, path: tests/pages}}
workload: {{v: 0}}
workflow:
  - step: start
    tool: http
    url: http://api.test/items
    retry:
      on_success: {{while: "{{{{ response.more }}}}", {fields}, collect: {{strategy: append, path: items}}}}
"""


V = '"{{ workload.v }}"'
FAILED = "{{ output.status == 'error' }}"
SECOND_ATTEMPT = "{{ output.data == 2 }}"
TASK = f"[{{name: a, kind: noop}}, {{name: b, kind: noop, spec: {{timeout: {V}}}}}]"

PLACES = {
    "retry delay": Place("delay", True, rule_text(f"do: retry, attempts: 2, delay: {V}", FAILED)),
    "retry max_delay": Place("max_delay", True, rule_text(f"do: retry, attempts: 2, delay: 1, max_delay: {V}", FAILED)),
    "retry attempts": Place("attempts", False, rule_text(f"do: retry, attempts: {V}", FAILED)),
    "jump delay": Place("delay", True, rule_text(f"do: jump, to: a, delay: {V}", SECOND_ATTEMPT)),
    "again attempts": Place("attempts", False, rule_text(f"do: again, attempts: {V}", SECOND_ATTEMPT)),
    "again delay": Place("delay", True, rule_text(f"do: again, attempts: 3, delay: {V}", SECOND_ATTEMPT)),
    "loop max_in_flight": Place("max_in_flight", False, loop_text(f"spec: {{mode: parallel, max_in_flight: {V}}}")),
    "loop chunk_size": Place("chunk_size", False, loop_text(f"spec: {{mode: chunked, chunk_size: {V}}}")),
    "loop limit": Place("limit", False, loop_text(f"limit: {V}")),
    "loop timeout": Place("timeout", True, loop_text(f"timeout: {V}")),
    "task timeout": Place("timeout", True, step(tool=TASK)),
    "task timeout in a loop": Place("timeout", True, step(tool=TASK, loop="{in: [1, 2], iterator: item}")),
    "task connect timeout": Place("connect", True, step(tool=TASK.replace(V, f"{{connect: {V}}}"))),
    "task read timeout": Place("read", True, step(tool=TASK.replace(V, f"{{read: {V}}}"))),
    "step timeout": Place("timeout", True, step(f"{{timeout: {V}}}")),
    "playbook timeout": Place("timeout", True, step(head=f"executor: {{spec: {{timeout: {V}}}}}\n")),
    "pages": Place("attempts", False, pages_text(f"max_attempts: {V}")),
    "page delay": Place("delay", True, pages_text(f"max_attempts: 3, delay: {V}")),
}
ODD_VALUES: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "-1": -1,
    "'5s'": "5s",
    "'soon'": "soon",
    "'2.5'": "2.5",
    "2.5": 2.5,
    "'nan'": "nan",
    "a list": [],
    "a mapping": {},
    "true": True,
    "none": None,
    "10**18": 10**18,
    "10**30": 10**30,
    "an empty text": "",
}
NO_DATA = ("more than 64 bits", "which JSON cannot represent")
"""Values that no template can yield are reported as such in every field."""

DURATIONS = frozenset({"'5s'", "'2.5'", "2.5"})


def answer() -> Activity:
    """Fails once where a rule asks about failures, has three pages, and counts its calls otherwise."""
    calls: list[str] = []

    def call_ended(call: ToolCall) -> Any:
        calls.append(call.id)
        if call.kind == "http":
            return {"status_code": 200, "data": {"items": [len(calls)], "more": len(calls) < 3}}
        is_retried = call.task == "b" and any(rule.do == "retry" for rule in call.rules or ())
        return error() if is_retried and len(calls) == 2 else len(calls)

    return Activity(call_ended)


def run_with(place: Place, value: Any) -> Run:
    return run_text(place.text, answer(), {"v": value})


@pytest.mark.parametrize("value", [1, 3, "3"], ids=repr)
@pytest.mark.parametrize("name", PLACES)
def test_numbers_are_accepted(name: str, value: Any) -> None:
    run = run_with(PLACES[name], value)
    is_used_up = name == "retry attempts" and value == 1
    assert run.finish.status == ("failed" if is_used_up else "completed"), run.finish.failures.detailed


@pytest.mark.parametrize("odd_value", ODD_VALUES)
@pytest.mark.parametrize("name", PLACES)
def test_an_unexpected_value_is_a_duration_or_a_failure_at_its_position(name: str, odd_value: str) -> None:
    place = PLACES[name]
    run = run_with(place, ODD_VALUES[odd_value])
    if odd_value in DURATIONS and place.is_duration:
        assert run.finish.status == "completed"
    elif odd_value == "none" and run.finish.status == "completed":
        return  # a template that gives none says nothing, as a field that is not there
    else:
        assert_reported(run, place, odd_value)


def assert_reported(run: Run, place: Place, odd_value: str) -> None:
    assert run.finish.status == "failed"
    names = (place.field, *NO_DATA) if odd_value in ("10**30", "nan", "inf", "-inf") else (place.field,)
    kept_failures = [
        failure for failure in run.finish.failures.detailed if any(name in failure.message for name in names)
    ]
    assert kept_failures, (odd_value, [failure.message for failure in run.finish.failures.detailed])
    assert kept_failures[0].col > 0
    line = place.text.splitlines()[kept_failures[0].line - 1]
    assert any(name in kept_failures[0].message for name in NO_DATA) or place.field in line


@pytest.mark.parametrize("mistake", ["1 / 0 > 1", "output.data > none", "output.data in 3"])
def test_an_error_in_a_rule_fails_its_task_at_its_position(mistake: str) -> None:
    text = rule_text("do: continue", f"{{{{ {mistake} }}}}")
    run = run_text(text, answer())
    assert run.finish.status == "failed"
    [failure] = run.finish.failures.detailed
    assert mistake in text.splitlines()[failure.line - 1]
    assert failure.task == "b"


def test_an_error_in_the_condition_of_a_rule_is_reported_at_the_condition() -> None:
    text = rule_text("do: continue", "{{ output.data > none }}").replace(", then:", ",\n            then:")
    [failure] = run_text(text, answer()).finish.failures.detailed
    assert "output.data > none" in text.splitlines()[failure.line - 1]
