"""What a v1 playbook does and which names it sees, where that differs from later dialects."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler.graph import Value
from noetl_temporal.machine.call import ToolCall

from .activity import Activity
from .driver import error, run_text

HEAD = "apiVersion: noetl.io/v1\nkind: Playbook\nname: x\npath: x\nworkload: {numbers: [1, 2], city: {name: Rome}}\n"
WORKBOOK = "workbook:\n  - {name: price_of, type: python, code: ''}\n"


def echo(call: ToolCall) -> Any:
    return call.config.get("result", {"input": call.input})


def result_of(workflow: str, answer: Any = echo) -> Any:
    run = run_text(HEAD + "workflow:\n" + workflow + WORKBOOK, answer)
    assert run.finish.status == "completed", run.finish
    return run.finish.result


def test_a_result_is_reached_by_the_task_and_by_the_step() -> None:
    result = result_of("""
  - step: start
    call: {type: workbook, name: price_of, with: {n: 1}}
    next:
      - when: "{{ price_of.input.n == 1 }}"
        then: end
  - step: end
    result: {task: "{{ price_of.input }}", step: "{{ start.data.input }}", both: "{{ results.price_of.input }}"}
""")
    assert result == {"task": {"n": 1}, "step": {"n": 1}, "both": {"n": 1}}


def test_the_results_of_a_loop_over_steps_are_known_after_its_end() -> None:
    result = result_of("""
  - {step: start, loop: {in: "{{ workload.numbers }}", iterator: n}, next: [{step: work, with: {m: "{{ n }}"}}]}
  - {step: work, type: noop, result: "{{ m * 10 }}", next: done}
  - {step: done, end_loop: start, next: end}
  - step: end
    result: "{{ start_results | map(attribute='work') | list }}"
""")
    assert result == [10, 20]


SUM = "step.first.input.n + loop.squares[1].n"


@pytest.mark.parametrize(
    ("second", "result"),
    [
        (f"result: '{{{{ {SUM} }}}}', next: end", 3),
        (f"result: 3, next: [{{when: '{{{{ step.name == \"second\" and {SUM} == 3 }}}}', then: end}}]", 3),
        (
            f"loop: {{in: [0], iterator: i}}, with: {{n: '{{{{ {SUM} + loop.index }}}}'}}, next: end",
            [{"input": {"n": 3}}],
        ),
        (f"result: 3, sink: {{tool: duckdb, table: t, values: {{n: '{{{{ {SUM} + step.data }}}}'}}}}", 3),
        (f"result: 3, retry: {{max_attempts: 2, when: '{{{{ {SUM} == 4 }}}}'}}", 3),
    ],
    ids=["input", "route", "item", "sink", "retry"],
)
def test_results_are_reached_below_step_and_loop(second: str, result: Any) -> None:
    run = run_text(
        HEAD
        + f"""
workflow:
  - {{step: start, next: first}}
  - {{step: first, type: python, code: "", with: {{n: 1}}, next: squares}}
  - step: squares
    type: iterator
    collection: "{{{{ workload.numbers }}}}"
    element: n
    task: {{type: noop, result: {{n: "{{{{ n }}}}"}}}}
    next: second
  - {{step: second, type: noop, {second}}}
""",
        echo,
    )
    assert (run.finish.status, run.finish.result) == ("completed", result), run.finish
    assert not run.of("warning")
    if "sink" in second or "retry" in second:
        scope = run.calls[-1].scope
        assert scope["step"]["first"] == {"input": {"n": 1}}
        assert scope["loop"]["squares"][1] == {"n": 2}


def test_case_sees_the_last_error() -> None:
    run = run_text(
        HEAD
        + """
workflow:
  - step: start
    type: python
    code: ""
    case:
      - when: "{{ last_error is not none and last_error.kind == 'timeout' }}"
        then: [{step: repair}]
      - else: [{step: other}]
  - {step: repair, type: noop}
  - {step: other, type: noop}
""",
        lambda call: error("late", "timeout") if call.step == "start" else 1,
    )
    assert run.finish.status == "completed"
    assert [event.node for event in run.of("step.started")] == ["start", "repair", "end"]


def test_the_name_of_a_task_means_its_last_call() -> None:
    result = result_of("""
  - {step: start, type: workbook, task: price_of, with: {n: 1}, next: again}
  - {step: again, type: workbook, task: price_of, with: {n: 2}, next: end}
  - {step: end, result: "{{ price_of.input.n }}"}
""")
    assert result == 2


def test_values_passed_by_a_route_are_visible_to_all_steps_after_it() -> None:
    result = result_of("""
  - {step: start, next: [{step: a, with: {passed: "{{ workload.city }}", a: 1}}]}
  - {step: a, type: python, code: "", with: {passed: "{{ passed.name }}"}, next: b}
  - {step: b, type: noop, next: end}
  - {step: end, result: {passed: "{{ passed.name }}", a: "{{ a.input.passed }}"}}
""")
    assert result == {"passed": "Rome", "a": "Rome"}


def test_a_step_named_before_a_choice_is_followed_too() -> None:
    run = run_text(
        HEAD
        + """
workflow:
  - step: start
    next: [{step: always}, {when: "{{ workload.numbers }}", then: chosen}, {else: other}]
  - {step: always, type: noop}
  - {step: chosen, type: noop}
  - {step: other, type: noop}
""",
        echo,
    )
    assert [event.node for event in run.of("step.started")] == ["start", "start/then_1", "chosen", "always", "end"]


ITERATOR = """
  - step: start
    next: [{step: squares, data: {numbers: "{{ workload.numbers }}"}}]
  - step: squares
    type: iterator
    collection: "{{ numbers }}"
    element: n
    task: {type: noop, result: {n: "{{ n }}", at: "{{ squares.result_index }}"}}
    %s
    next: end
  - {step: end, result: %s}
"""
ITEMS = [{"n": 1, "at": 0}, {"n": 2, "at": 1}]


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("{{ squares }}", ITEMS),
        ("{{ squares.results }}", ITEMS),
        ("{{ squares.data[1].at }}", 1),
        ("{{ squares.result | length }}", 2),
        ("{{ squares.count }}", 2),
        ("{{ squares[0].n }}", 1),
    ],
)
def test_a_loop_gives_its_results_under_every_name(template: str, expected: Any) -> None:
    assert result_of(ITERATOR % ("desc: none", f'"{template}"')) == expected


def test_a_save_beside_an_iterator_stores_all_results_once() -> None:
    save = 'save: {storage: duckdb, table: t, data: {n: "{{ count }}", all: "{{ results }}"}}'
    run = run_text(HEAD + "workflow:\n" + ITERATOR % (save, '"{{ squares.count }}"'), echo)
    calls_with_sinks = [call for call in run.calls if call.sinks]
    assert [call.step for call in calls_with_sinks] == ["squares/save"]
    assert calls_with_sinks[0].scope == {"count": 2, "results": ITEMS}
    assert run.finish.result == 2


def test_a_retry_condition_reads_last_error_and_the_running_step() -> None:
    answers = iter([error("busy"), {"ok": True}])
    run = run_text(
        HEAD
        + """
workflow:
  - step: start
    type: http
    endpoint: http://x
    retry: {max_attempts: 3, backoff: {type: fixed, base_seconds: 2}, when: ["{{ last_error is not none }}"]}
    sink: {tool: postgres, table: "{{ step.name }}", values: {all: "{{ step.data }}"}}
""",
        lambda _call: next(answers),
    )
    call = run.calls[0]
    assert call.rules is not None
    rule = call.rules[0]
    assert (rule.when, rule.backoff) == ("{{ last_error is not none }}", "none")
    assert (rule.attempts, rule.delay) == (Value(3), Value(2))
    assert call.scope["step"]["name"] == "start"


@pytest.mark.parametrize("values", ["data", "params"])
def test_the_statement_of_a_save_reads_the_values_beside_it(values: str) -> None:
    save = f"{values}: {{n: '{{{{ result.n + 1 }}}}'}}, statement: 'insert into t values ({{{{ params.n }}}})'"
    activity = Activity(lambda _call: {"n": 1})
    step = f"{{step: start, type: http, endpoint: u, save: {{storage: postgres, {save}}}}}"
    run_text(f"{HEAD}workflow:\n  - {step}\n", activity)
    assert activity.stored_configs == [{"statement": "insert into t values (2)", values: {"n": 2}}]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("{{ data.n }}", "2"),
        ("{{ data.m }}", "5"),
        ("{{ data.n }} {{ params.n }} {{ result.n }}", "2 2 1"),
        ("{{ data | tojson }}", '{"n": 2}'),
    ],
)
def test_the_statement_of_a_sink_sees_its_args_as_data(statement: str, expected: str) -> None:
    activity = Activity(lambda _call: {"n": 1, "m": 5})
    args = f"args: {{n: '{{{{ result.n + 1 }}}}'}}, command: 'values ({statement})'"
    text = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: sinks}}
workflow:
  - {{step: start, tool: http, url: "http://api.test", sink: {{tool: postgres, auth: pg, {args}}}}}
  - step: end
"""
    run_text(text, activity)
    assert [statement["statement"] for statement in activity.stored_configs] == [f"values ({expected})"]


def test_names_bound_by_a_step_are_rendered_once() -> None:
    result = result_of("""
  - step: start
    with: {city: "{{ city.name }}"}
    call: {type: workbook, name: price_of}
    next: end
  - {step: end, result: "{{ start.input.city }}"}
""")
    assert result == "Rome"


def test_names_of_a_workbook_task_are_rendered_with_those_of_its_caller() -> None:
    run = run_text(
        HEAD
        + """
workflow:
  - step: start
    loop: {in: "{{ workload.numbers }}", iterator: n}
    type: workbook
    name: price_of
    with: {number: "{{ n }}", fixed: 1}
workbook:
  - {name: price_of, type: noop, with: {twice: "{{ number * 2 }}", fixed: 0, number: "{{ missing }}"}}
""",
        echo,
    )
    assert [call.input for call in run.calls] == [
        {"number": 1, "fixed": 1, "twice": 2},
        {"number": 2, "fixed": 1, "twice": 4},
    ]


def test_an_input_that_is_not_a_mapping_fails_the_step_at_its_place() -> None:
    run = run_text(
        HEAD + "workflow:\n  - {step: start, type: python, code: '', args: '{{ workload.numbers }}'}\n", echo
    )
    failure = run.finish.failures.detailed[0]
    assert (failure.message, failure.line) == ("the input is [1, 2], expected a mapping of names", 7)
