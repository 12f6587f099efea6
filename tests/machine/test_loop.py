"""Loops: items, order, bounds, failures, what they set."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.machine.call import ToolCall

from .driver import Run, error, run_text
from .playbooks import playbook, step


def loop(spec: str = "", items: str = "[1, 2, 3]", extra: str = "", following_steps: str = "") -> str:
    return playbook(
        f"""
  - step: start
    loop: {{in: "{{{{ workload.items }}}}", iterator: item{spec}}}
    tool: {{kind: noop, message: "{{{{ iter.item }}}}"}}
{extra}    next: {{arcs: [{{step: after}}]}}
"""
        + (following_steps or step("after")),
        f"workload: {{items: {items}}}\n",
    )


def message(call: ToolCall) -> Any:
    return call.config.get("message")


def results(run: Run) -> Any:
    [done] = run.of("loop.done") or run.of("loop.failed")
    return done.meta["stats"]


@pytest.mark.parametrize(
    ("items", "item_values"),
    [("[1, 2, 3]", [1, 2, 3]), ("[]", []), ("text", ["text"]), ("{a: 1}", [{"a": 1}]), ("null", [])],
)
def test_which_collections_have_which_items(items: str, item_values: list[Any]) -> None:
    run = run_text(loop(items=items), message)
    assert [call.config["message"] for call in run.calls if call.step == "start"] == item_values
    assert results(run) == {"total": len(item_values), "success": len(item_values), "failed": 0, "skipped": 0}
    assert run.finish.status == "completed"


@pytest.mark.parametrize("first", [True, False])
def test_results_are_in_index_order_however_the_iterations_end(first: bool) -> None:
    spec = ", spec: {mode: parallel, max_in_flight: 3}"
    following_steps = (
        '  - step: after\n    tool: {kind: noop, message: "{{ start.results }} {{ start.stats.total }}"}\n'
    )
    run = run_text(loop(spec, following_steps=following_steps), message, pick=lambda count: 0 if first else count - 1)
    assert run.finish.result == "[1, 2, 3] 3"


@pytest.mark.parametrize("mode", ["mode: parallel", "mode: chunked, chunk_size: 1", "mode: parallel, chunk_size: 1"])
def test_no_more_than_max_in_flight_run_at_once(mode: str) -> None:
    waiting: list[int] = []

    def pick(count: int) -> int:
        waiting.append(count)
        return 0

    run_text(loop(f", spec: {{{mode}, max_in_flight: 2}}", "[1, 2, 3, 4, 5]"), message, pick=pick)
    assert max(waiting) == 2


def test_a_failed_iteration_stops_no_other_and_fails_the_step() -> None:
    run = run_text(loop(), lambda call: error("odd") if message(call) == 2 else message(call))
    assert results(run) == {"total": 3, "success": 2, "failed": 1, "skipped": 0}
    assert run.finish.status == "failed"
    assert [(failure.step, failure.iteration) for failure in run.finish.failures.detailed] == [("start", 1)]
    assert "after" not in {call.step for call in run.calls}


def test_a_handled_loop_failure_completes() -> None:
    text = loop().replace("arcs: [{step: after}]", "arcs: [{step: after, when: \"{{ event.name == 'loop.failed' }}\"}]")
    run = run_text(text, lambda call: error("odd") if message(call) == 2 else message(call))
    assert run.finish.status == "completed"
    assert "after" in {call.step for call in run.calls}


def test_sequential_iterations_see_what_the_one_before_set() -> None:
    extra = ""
    text = loop(items="[1, 2, 3]", extra=extra).replace(
        'tool: {kind: noop, message: "{{ iter.item }}"}',
        'tool: {kind: noop, message: "{{ ctx.sum | default(0) }}",'
        ' set: {ctx.sum: "{{ (ctx.sum | default(0)) + iter.item }}"}}',
    )
    text = text.replace(
        "- step: after\n    tool: {kind: noop}", '- step: after\n    tool: {kind: noop, message: "{{ ctx.sum }}"}'
    )
    run = run_text(text, message)
    assert [call.config["message"] for call in run.calls] == [0, 1, 3, 6]


def test_parallel_sets_apply_in_index_order_at_the_end() -> None:
    text = loop(", spec: {mode: parallel, max_in_flight: 3}").replace(
        'message: "{{ iter.item }}"}', 'message: "{{ iter.item }}", set: {ctx.last: "{{ iter.item }}"}}'
    )
    text = text.replace(
        "- step: after\n    tool: {kind: noop}", '- step: after\n    tool: {kind: noop, message: "{{ ctx.last }}"}'
    )
    assert run_text(text, message, pick=lambda count: count - 1).finish.result == 3


def test_every_iteration_is_reported_once() -> None:
    run = run_text(loop(", spec: {mode: parallel}"), message)
    [started] = run.of("loop.started")
    iterations = run.of("loop.iteration.started")
    assert started.meta["iterator"]["total_count"] == 3
    assert [event.meta["iteration"] for event in iterations] == [0, 1, 2]
    assert {event.parent for event in iterations} == {started.id}
    assert sorted(event.meta["iteration"] for event in run.of("loop.iteration.done")) == [0, 1, 2]


LEGACY = """
apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: legacy, path: tests/legacy}
workload: {items: [{n: 3, keep: true}, {n: 1, keep: true}, {n: 2, keep: false}, {n: 0, keep: true}]}
workflow:
  - step: start
    tool: noop
    loop: {collection: "{{ workload.items }}", element: item LOOP}
    message: "{{ item.n }}"
    next: [{step: end}]
  - step: end
"""


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        (', where: "{{ item.keep }}"', [3, 1, 0]),
        (', order_by: "{{ item.n }}"', [0, 1, 2, 3]),
        (', order_by: "{{ item.n }}", limit: 2', [0, 1]),
    ],
)
def test_items_are_filtered_ordered_and_limited(extra: str, expected: list[int]) -> None:
    run = run_text(LEGACY.replace(" LOOP", extra), message)
    assert run.finish.result == expected


@pytest.mark.parametrize(
    ("spec", "items", "expected"),
    [
        (", spec: {mode: chunked, chunk_size: 2}", "[1, 2, 3]", [[1, 2], [3]]),
        (", spec: {mode: chunked, chunk_size: 2}, limit: 3", "[1, 2, 3, 4, 5]", [[1, 2], [3]]),
        (", spec: {mode: chunked, chunk_size: 2, max_in_flight: 2}", "[1, 2, 3]", [[1, 2], [3]]),
        (", spec: {mode: parallel, chunk_size: 2}", "[1, 2, 3]", [[1, 2], [3]]),
        (", spec: {mode: sequential, chunk_size: 2}", "[1, 2, 3]", [[1, 2], [3]]),
        (", chunk_size: 5", "[1, 2, 3]", [[1, 2, 3]]),
        (", chunk_size: 5", "[]", []),
    ],
)
def test_chunks_are_lists_of_items(spec: str, items: str, expected: list[Any]) -> None:
    run = run_text(loop(spec, items=items), message)
    assert [call.config["message"] for call in run.calls if call.step == "start"] == expected


def test_the_items_of_a_map_are_asked_for() -> None:
    text = loop(items="{a: 1, b: 2}").replace("workload.items }}", "workload['items'] | items }}")
    run = run_text(text, message)
    assert [call.config["message"] for call in run.calls if call.step == "start"] == [["a", 1], ["b", 2]]
