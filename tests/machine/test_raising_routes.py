"""A route that raises is an error of its step: located, logged, and never in place of an earlier failure."""

from __future__ import annotations

import pytest

from .driver import Run, error, run_text
from .playbooks import playbook, step

RAISES = "{{ 1 / workload.zero > 0 }}"
AFTER_FAILURE = "{{ event.name == 'step.failed' and 1 / workload.zero > 0 }}"
HEAD = "workload: {zero: 0, text: x}\n"
V1 = f"apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {{name: x}}\n{HEAD}workflow:\n"
NEXT = f'next: {{arcs: [{{step: a, when: "{RAISES}"}}]}}'
DENYING_SPEC = "spec: {policy: {admit: {rules: [{else: {then: {allow: false}}}]}}}"


def v10(fields: str) -> str:
    """Step start, and step a after it."""
    return playbook(f"  - {{step: start, {fields}}}\n", HEAD) + step("a")


def older(first: str, second: str = "{step: a, tool: noop}") -> str:
    return f"{V1}  - {first}\n  - {second}\n"


DIALECTS = {
    "v10": v10(f"tool: {{kind: noop}}, {NEXT}"),
    "set": v10(f'tool: {{kind: noop}}, next: {{arcs: [{{step: a, set: {{ctx.x: "{RAISES}"}}}}]}}'),
    "sum": v10('tool: {kind: noop}, next: {arcs: [{step: a, set: {"ctx.text[+]": 1}}]}'),
    "loop": v10(f"loop: {{in: [1, 2], iterator: item}}, tool: {{kind: noop}}, {NEXT}"),
    "no task": v10(NEXT),
    "not admitted": v10(f"{DENYING_SPEC}, tool: {{kind: noop}}, {NEXT}"),
    "legacy": older(f'{{step: start, tool: noop, next: [{{when: "{RAISES}", then: [a]}}]}}'),
    "v1": older(
        f"{{step: start, type: python, code: '', next: [{{when: \"{RAISES}\", then: a}}, {{else: a}}]}}",
        "{step: a, type: python, code: ''}",
    ),
    "case": older(
        "{step: start, tool: {kind: noop}, "
        "case: [{when: \"{{ event.name == 'step.exit' and 1 / workload.zero > 0 }}\", then: {next: a}}]}",
        "{step: a, tool: {kind: noop}}",
    ).replace("v1", "v2", 1),
}


def ends_of_start(run: Run) -> list[tuple[str, str]]:
    """What the log says from the first end of step start on, without the final step and the run."""
    types = ("step.done", "step.failed", "step.skipped", "next.evaluated", "ctx.updated")
    return [(event.type, event.status) for event in run.events if event.node == "start" and event.type in types]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_route_that_raises_fails_the_successful_step(dialect: str) -> None:
    run = run_text(DIALECTS[dialect], lambda _call: {"x": 1})
    assert run.finish.status == "failed"
    assert run.finish.steps["start"]["status"] == "failed"
    assert "a" not in run.finish.steps
    assert ends_of_start(run)[-2:] == [("step.failed", "FAILED"), ("next.evaluated", "FAILED")]
    [failure] = run.finish.failures.detailed
    for event in run.of("step.failed") + run.of("next.evaluated")[:1]:
        assert event.error == failure.message
        assert event.meta["source"]["line"] == failure.line > 0
    started_ids = [event.id for event in run.of("step.started") if event.node == "start"]
    assert [event.ends for event in run.of("step.failed")] == started_ids


def test_a_failure_before_a_route_that_raises_is_reported_too() -> None:
    text = v10(f'tool: {{kind: noop}}, next: {{arcs: [{{step: a, when: "{AFTER_FAILURE}"}}]}}')
    run = run_text(text, lambda call: error("no service", "http") if call.step == "start" else None)
    assert [(failure.kind, failure.handled) for failure in run.finish.failures.detailed] == [
        ("http", False),
        ("template", False),
    ]
    assert run.finish.failures.detailed[0].message == "no service"
    [failed], routing_event = run.of("step.failed"), run.of("next.evaluated")[0]
    assert failed.error == "no service"
    assert (routing_event.status, routing_event.error) == ("FAILED", run.finish.failures.detailed[1].message)


def test_two_failures_with_the_same_message_are_counted_separately() -> None:
    message = 'tool: {kind: noop, message: "{{ 1 / workload.zero }}"}'
    run = run_text(v10(f'{message}, next: {{arcs: [{{step: a, when: "{AFTER_FAILURE}"}}]}}'), lambda _call: None)
    failure, other = run.finish.failures.detailed
    assert failure.message == other.message
    assert failure.col < other.col


def test_the_result_of_a_step_whose_route_raised_is_kept() -> None:
    assert run_text(DIALECTS["v10"], lambda _call: {"x": 1}).finish.result == {"x": 1}
