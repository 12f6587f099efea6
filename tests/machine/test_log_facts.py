"""What the log has of loops, assignments, the workload and the end, for readers of the log alone."""

from __future__ import annotations

import pytest

from noetl_compiler.graph import Span, Value
from noetl_temporal.machine.call import CallRule, ToolCall, ToolReport
from noetl_temporal.machine.policy import Decision, is_last_page

from .driver import error, ok, run_text

HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"


def _echo(call: ToolCall) -> ToolReport:
    if call.input.get("item") == "bad":
        return error("exception", "bad")
    return ok(call.input.get("item", 1))


def _legacy(workflow: str, workload: str = "{}") -> str:
    return f"{HEAD}workload: {workload}\nworkflow:\n{workflow}"


LOOP = """
  - step: start
    tool: python
    code: "def main(item): return item"
    loop: {collection: COLLECTION, element: item, MODE}
    retry: {max_attempts: 2, when: "{{ error.kind == 'timeout' }}"}
"""


def test_a_loop_logs_its_items_and_the_nested_task() -> None:
    text = _legacy(LOOP.replace("COLLECTION", "[a, bad]").replace("MODE", "mode: async, concurrency: 3"))
    run = run_text(text, _echo)
    [started] = run.of("loop.started")
    assert started.context == {
        "collection": ["a", "bad"],
        "nested_task": {
            "name": "start",
            "tool": "python",
            "retry": {"max_attempts": 2, "when": "{{ error.kind == 'timeout' }}"},
        },
    }
    assert started.meta["iterator"] == {
        "iterator_name": "item",
        "total_count": 2,
        "collection_size": 2,
        "mode": "parallel",
        "concurrency": 3,
    }
    assert started.meta["loop_id"] == "start/1"
    assert [event.context for event in run.of("loop.iteration.started")] == [{"element": "a"}, {"element": "bad"}]
    assert run.of("loop.failed")[0].result == ["a", None], "of all items, though one failed"


def test_a_large_collection_is_not_logged() -> None:
    text = _legacy(LOOP.replace("COLLECTION", '"{{ range(6000) | list }}"').replace("MODE", "mode: async"))
    [started] = run_text(text, _echo).of("loop.started")
    assert started.context["collection"] == {"_truncated": True}


def test_chunks_are_counted_beside_their_items() -> None:
    text = _legacy(LOOP.replace("COLLECTION", "[1, 2, 3]").replace("MODE", "mode: chunked, chunk_size: 2"))
    facts = run_text(text, _echo).of("loop.started")[0].meta["iterator"]
    assert (facts["collection_size"], facts["chunks"], facts["chunk_size"]) == (3, 2, 2)


def test_an_update_logs_the_new_values() -> None:
    workflow = """
  - step: start
    tool: python
    code: "def main(): return 1"
    vars: {n: "{{ result }}", deep: {er: 2}}
"""
    assert run_text(_legacy(workflow), _echo).of("ctx.updated")[0].context == {"vars": {"n": 1, "deep": {"er": 2}}}


def test_values_set_by_items_are_logged_at_the_end_of_the_loop() -> None:
    text = """
metadata: {name: t, path: tests/t}
workflow:
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
    tool: {kind: noop, set: {ctx.last: "{{ iter.n }}"}}
"""
    run = run_text(text, lambda _: ok(1))
    assert run.of("ctx.updated")[-1].context == {"vars": {"last": 3}}
    assert run.of("ctx.updated")[-1].id < run.of("loop.done")[0].id


@pytest.mark.parametrize(
    ("workload", "expected"),
    [("{a: 1}", {}), ('{a: "{{ 1 + 1 }}"}', {"workload": {"a": 2}})],
)
def test_a_workload_is_logged_as_rendered(workload: str, expected: dict[str, object]) -> None:
    run = run_text(_legacy('  - {step: start, tool: python, code: "def main(): return 1"}\n', workload), _echo)
    assert run.of("playbook.request.evaluated")[0].context == expected


def test_an_added_end_summarises_all_steps() -> None:
    workflow = """
  - {step: start, tool: python, code: "def main(): return 1", next: fails}
  - {step: fails, tool: python, args: {item: bad}, code: "def main(item): return 1"}
"""
    run = run_text(_legacy(workflow), _echo)
    assert run.of("step.done")[-1].result == {
        "status": "aggregated",
        "results": {"start": 1},
        "failed_steps": ["fails"],
    }


TWO = """
  - {step: start, tool: python, code: "def main(): return 1", next: more}
  - {step: more, tool: python, code: "def main(): return 1"}
"""


def test_a_result_that_history_has_is_not_in_an_event_again() -> None:
    """Up to 64 bytes it is."""
    run = run_text(_legacy(TWO), lambda call: ok("x" * (62 if call.step == "start" else 63)))
    [small, large] = [event.id for event in run.of("task.started")]
    for type_ in ("task.done", "step.done"):
        [first, second, *_] = run.of(type_)
        assert (first.result, "left_out" in first.meta) == ("x" * 62, False)
        assert (second.result, second.meta["left_out"]) == (None, {"size": 65, "row": large})
    for type_ in ("workflow.finished", "playbook.completed"):
        [end] = run.of(type_)
        assert (end.result, end.meta["left_out"]) == (None, {"size": 65, "row": large})
    assert small not in (event.meta.get("left_out", {}).get("row") for event in run.events)


def test_an_end_that_was_added_leaves_out_the_results_that_history_has() -> None:
    results = {"start": "x" * 4_900, "more": {"rows": ["y" * 4_900]}}
    run = run_text(_legacy(TWO), lambda call: ok(results[call.step]))
    rows = {event.meta["step_run_id"].partition("#")[0]: event.id for event in run.of("task.started")}
    end = run.of("step.done")[-1]
    assert end.result["results"] == {"start": None, "more": None}
    assert end.meta["left_out"]["results"] == {
        "start": {"size": 4_902, "row": rows["start"], "is_mapping": False},
        "more": {"size": 4_913, "row": rows["more"], "is_mapping": True},
    }


def test_an_end_that_was_added_refers_to_the_rows_of_results_that_are_too_large_together() -> None:
    sizes = {"start": 6_000, "more": 6_000}
    run = run_text(_legacy(TWO), lambda call: ok("x" * (sizes[call.step] - 2)))
    rows = {event.meta["step_run_id"].partition("#")[0]: str(event.id) for event in run.of("task.started")}
    assert run.of("step.done")[-1].result["results"] == {
        name: {"reference": {"type": "row", "event_id": rows[name], "size": size}} for name, size in sizes.items()
    }


def test_an_end_that_was_added_to_many_steps_shows_the_beginning_of_their_results() -> None:
    names = [f"s{number}" for number in range(20)]
    steps = [
        f'  - {{step: {name}, tool: python, code: "def main(): return 1"{f", next: {after}" if after else ""}}}\n'
        for name, after in zip(["start", *names], [*names, None], strict=True)
    ]
    run = run_text(_legacy("".join(steps)), lambda _: ok("x" * 1_000))
    [(kind, result)] = run.of("step.done")[-1].result["results"].items()
    assert (kind, result["type"], result["size"] > 20_000) == ("reference", "rows", True)
    assert result["preview"].startswith('{"start":"xxx')


def test_the_last_rows_have_the_result_of_the_run() -> None:
    run = run_text(_legacy('  - {step: start, tool: python, code: "def main(): return 1"}\n'), _echo)
    assert [run.of(name)[0].result for name in ("workflow.finished", "playbook.completed")] == [1, 1]


@pytest.mark.parametrize(("page", "is_last"), [(None, False), (1, False), (2, True), (3, True)])
def test_a_page_is_the_last_where_the_rule_allows_no_more(page: int | None, is_last: bool) -> None:
    limit = Value("{{ workload.most }}", {"": Span(1, 1, 1, 1)})
    rules = [CallRule(0, "fail", on_status="error"), CallRule(1, "again", on_status="ok", attempts=limit)]
    assert is_last_page(rules, Decision("again", 1), {"workload": {"most": 2}}, page) == is_last
    assert not is_last_page(rules, Decision("continue"), {}, page)
