"""``else`` after a failure: only where another condition of the choice reads the outcome (semantics.md 34)."""

from __future__ import annotations

import pytest

from .driver import error, ok, run_text

V1 = "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: x}\nworkload: {n: 1}\nworkflow:\n"
V10 = V1.replace("v1", "v2")
TARGETS = "  - {step: t, tool: {kind: noop}}\n  - {step: y, tool: {kind: noop}}\n"
OLD_TARGETS, FLAT_TARGETS = (
    f"  - {{step: t, {key}: noop}}\n  - {{step: y, {key}: noop}}\n" for key in ("type", "tool")
)
NEXT = "[{when: 'WHEN', then: [{step: t}]}, {else: [{step: y}]}]"
CHOICES = {
    "v1 next": (
        V1,
        "type: http, endpoint: u",
        f"next: {NEXT}",
        OLD_TARGETS,
    ),
    "v1 case": (
        V1,
        "type: http, endpoint: u",
        f"case: {NEXT}",
        OLD_TARGETS,
    ),
    "legacy": (V1, "tool: http, url: u", f"next: {NEXT}", FLAT_TARGETS),
    "case": (V10, "tool: {kind: http, url: u}", "case: [{when: 'WHEN', then: {next: t}}, {else: {next: y}}]", TARGETS),
    "v10": (
        V10,
        "tool: {kind: http, url: u}",
        "next: {arcs: [{when: 'WHEN', then: [{step: t}], else: [{step: y}]}]}",
        TARGETS,
    ),
}


@pytest.mark.parametrize(
    ("when", "is_followed"),
    [
        ('{{ error.kind == "auth" }}', True),
        ('{{ event.name == "call.done" and workload.n == 2 }}', True),
        ("{{ workload.n == 2 }}", False),
    ],
)
@pytest.mark.parametrize("choice", CHOICES)
def test_else_follows_a_failure_where_a_condition_reads_the_outcome(choice: str, when: str, is_followed: bool) -> None:
    head, tool, route, targets = CHOICES[choice]
    text = f"{head}  - {{step: start, {tool}, {route.replace('WHEN', when)}}}\n{targets}"
    run = run_text(text, lambda call: error("late") if call.step == "start" else ok(call.step))
    assert (run.finish.status, run.finish.result) == (("completed", "y") if is_followed else ("failed", None))


@pytest.mark.parametrize("choice", CHOICES)
def test_else_follows_a_success_in_any_case(choice: str) -> None:
    head, tool, route, targets = CHOICES[choice]
    text = f"{head}  - {{step: start, {tool}, {route.replace('WHEN', '{{ workload.n == 2 }}')}}}\n{targets}"
    assert run_text(text, lambda call: ok(call.step)).finish.result == "y"
