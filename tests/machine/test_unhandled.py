"""A failed call that a rule ended without a condition on errors is logged."""

from __future__ import annotations

import pytest

from .activity import Activity
from .driver import Run, error, run_text
from .playbooks import playbook

NEXT_PAGE = "{when: '{{ output.result.data.next }}', then: {do: jump, to: fetch}}"
ELSE_BREAK = "{else: {then: {do: break}}}"
ERROR = "{when: \"{{ output.status == 'error' }}\", then: {do: continue}}"
MESSAGE = "fetch failed (HTTP 503); the rule at line {} ended it without handling the error"


def run_with(*rules: str, loop: str = "") -> Run:
    rule_lines = "".join(f"              - {rule}\n" for rule in rules)
    text = (
        f"  - step: start\n{loop}    tool:\n      - name: fetch\n        kind: noop\n"
        f"        spec:\n          policy:\n            rules:\n{rule_lines}"
    )
    return run_text(playbook(text), Activity(lambda _call: error("HTTP 503")))


def line_of(run: Run) -> int:
    [warning] = run.of("warning")
    line: int = warning.meta["source"]["line"]
    return line


@pytest.mark.parametrize(
    "rules",
    [
        (NEXT_PAGE, ELSE_BREAK),
        (ELSE_BREAK,),
        ("{else: {then: {do: continue}}}",),
        ("{when: '{{ output.result.data.next is not defined }}', then: {do: break}}",),
    ],
)
def test_a_rule_that_ends_a_failed_call_by_chance_is_reported(rules: tuple[str, ...]) -> None:
    run = run_with(*rules)
    assert run.finish.status == "completed"
    assert [event.error for event in run.of("warning")] == [MESSAGE.format(line_of(run))]
    assert run.of("warning")[0].node == "start"


@pytest.mark.parametrize(
    "rules",
    [
        (ERROR,),
        ("{when: '{{ error is defined }}', then: {do: break}}",),
        ("{when: '{{ output.http.status == 404 or true }}', then: {do: break}}",),
        ("{else: {then: {do: fail}}}",),
    ],
)
def test_a_rule_that_reads_errors_is_not_reported(rules: tuple[str, ...]) -> None:
    assert run_with(*rules).of("warning") == []


def test_a_loop_is_reported_once() -> None:
    run = run_with(ELSE_BREAK, loop="    loop: {in: [1, 2, 3], iterator: one}\n")
    assert [event.error for event in run.of("warning")] == [MESSAGE.format(line_of(run))]
