"""What the specs around a task say for its calls: kind < executor < step < loop < task, the nearer one wins."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest

from noetl_compiler import compile_or_raise, compile_text

LAYERS = ("executor", "step", "loop", "task")
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: layers}\n"


def playbook(specs: dict[str, str], *, workbook: str = "") -> str:
    """A loop with one task; ``specs`` has the text of the layers that say something."""
    spec = {layer: specs.get(layer, "{}") for layer in LAYERS}
    tool = "{kind: workbook, name: shared" if workbook else '{kind: http, url: "http://x"'
    return (
        f"{HEAD}executor: {{spec: {spec['executor']}}}\n"
        + (
            f'workbook: [{{name: shared, tool: {{kind: http, url: "http://x", spec: {workbook}}}}}]\n'
            if workbook
            else ""
        )
        + f"workflow:\n- step: start\n  spec: {spec['step']}\n"
        + f"  loop: {{in: [1], iterator: item, spec: {spec['loop']}}}\n"
        + f"  tool: {tool}, spec: {spec['task']}}}\n"
    )


def compile_specs(specs: dict[str, str], **more: str) -> Any:
    """The graph as plain JSON."""
    return msgspec.to_builtins(compile_or_raise(playbook(specs, **more)))


def task_of(specs: dict[str, str], **more: str) -> Any:
    return compile_specs(specs, **more)["steps"]["start"]["tasks"][0]


def at(tree: Any, *path: Any) -> Any:
    for part in path:
        tree = tree[part]
    return tree


RETRY = "{{policy: {{rules: [{{else: {{do: retry, attempts: {}}}}}]}}}}"
ATTEMPTS = ("policy", "rules", 0, "attempts", "data")
SAYS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "retry": (RETRY, ATTEMPTS),
    "connect": ("{{timeout: {{connect: {}}}}}", ("timeout", "connect", "data")),
    "timeout of calls": ("{{policy: {{defaults: {{timeout_s: {}}}}}}}", ("timeout", "total", "data")),
    "result": ("{{result: {{inline_max_bytes: {}}}}}", ("output", "inline_max_bytes", "data")),
}
OF_A_TASK = {"timeout of calls": "{timeout: 7}"}


@pytest.mark.parametrize("field", SAYS)
@pytest.mark.parametrize(("outer", "inner"), list(pairwise(LAYERS)))
def test_a_layer_overrides_the_one_outside_of_it(field: str, outer: str, inner: str) -> None:
    text, place = SAYS[field]
    nearer = OF_A_TASK.get(field, text.format(7)) if inner == "task" else text.format(7)
    assert at(task_of({outer: text.format(9)}), *place) == 9
    assert at(task_of({outer: text.format(9), inner: nearer}), *place) == 7


def test_the_outermost_layer_is_what_the_tool_does_unasked() -> None:
    task = task_of({})
    assert (task["policy"], task["timeout"], task["idempotent"], task["output"]) == (None, None, True, None)


def test_mappings_are_laid_over_and_lists_replace() -> None:
    outer = "{policy: {on_unmatched: fail, rules: [{else: {do: continue}}]}, timeout: {connect: 1, read: 2}}"
    step_spec = "{policy: {rules: [{when: '{{ output.data.again }}', then: {do: retry}}]}, timeout: {read: 5}}"
    task = task_of({"executor": outer, "task": step_spec})
    assert task["policy"]["unmatched"] == "fail"
    assert [rule["do"] for rule in task["policy"]["rules"]] == ["retry"]
    assert (at(task, "timeout", "connect", "data"), at(task, "timeout", "read", "data")) == (1, 5)


def test_a_total_is_that_of_the_layer_that_sets_it() -> None:
    graph = compile_specs({"executor": "{timeout: 100}", "step": "{timeout: 60}", "task": "{timeout: 5}"})
    step = graph["steps"]["start"]
    timeouts = (at(layer, "timeout", "total", "data") for layer in (graph, step, step["tasks"][0]))
    assert tuple(timeouts) == (100, 60, 5)


def test_the_time_of_a_loop_is_that_of_its_step() -> None:
    step = at(compile_specs({"step": "{timeout: 60}", "loop": "{timeout: 30}"}), "steps", "start")
    assert at(step, "timeout", "total", "data") == 30
    assert step["tasks"][0]["timeout"] is None


@pytest.mark.parametrize("layer", LAYERS[:-1])
def test_calls_may_be_said_to_be_made_once(layer: str) -> None:
    assert task_of({layer: "{idempotent: false}"})["idempotent"] is False
    assert task_of({layer: "{idempotent: false}", "task": "{idempotent: true}"})["idempotent"]


def test_a_workbook_task_is_nearer_than_what_is_around_its_call() -> None:
    loop_retry, step_retry, call_retry = ({"step": RETRY.format(9)}, RETRY.format(4), {"task": RETRY.format(2)})
    assert at(task_of(loop_retry, workbook="{}"), *ATTEMPTS) == 9
    assert at(task_of(loop_retry, workbook=step_retry), *ATTEMPTS) == 4
    assert at(task_of(loop_retry | call_retry, workbook=step_retry), *ATTEMPTS) == 2


def test_the_call_options_of_a_workbook_task_apply() -> None:
    assert task_of({}, workbook="{idempotent: false}")["idempotent"] is False
    assert task_of({"step": "{idempotent: false}"}, workbook="{idempotent: true}")["idempotent"]


def test_rules_of_a_step_are_checked_for_each_of_its_tasks() -> None:
    result = compile_text(playbook({"step": "{policy: {rules: [{else: {do: jump, to: nowhere}}]}}"}))
    assert [diagnostic.code.value for diagnostic in result.diagnostics] == ["NT204"]


def test_a_default_of_calls_is_known_by_its_name() -> None:
    result = compile_text(playbook({"executor": "{policy: {defaults: {timeouts_s: 3}}}"}))
    assert [(diagnostic.code.value, diagnostic.hint) for diagnostic in result.diagnostics] == [
        ("NT102", 'did you mean "timeout_s"?')
    ]
