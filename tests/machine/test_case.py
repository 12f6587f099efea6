"""What rules about events do when a playbook of the case dialect runs (dev/decisions/0011)."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.machine.call import ToolCall

from .activity import Activity
from .case_runs import DONE, HEAD, echo, run, steps
from .driver import Run, error, run_text


def page_of(call: ToolCall) -> Any:
    """Three pages of two items; the body as an HTTP tool gives it."""
    page = int(call.config["params"]["page"])
    body = {"items": [2 * page - 1, 2 * page], "paging": {"page": page, "more": page < 3}}
    return {"status_code": 200, "headers": {}, "url": "u", "elapsed": 1, "data": body}


def case(rules: str, tool: str = "{kind: noop, result: {n: 3}}", more: str = "") -> str:
    return f"  - step: start\n    tool: {tool}\n{more}    case:\n{rules}{DONE}"


# ---- which way ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "follows"),
    [
        ("call.done' and response.n == 3", "other"),
        ("call.done' and response.n == 4", "end"),
        ("step.exit' and result.n == 3", "other"),
        ("call.error", "end"),
    ],
)
def test_a_rule_takes_its_route_if_its_event_and_condition_match(rules: str, follows: str) -> None:
    quote = "" if rules.endswith(("3", "4")) else "'"
    finished, _ = run(case(f"""      - {{when: "{{{{ event.name == '{rules}{quote} }}}}", then: {{next: other}}}}\n"""))
    assert steps(finished)[1] == follows


@pytest.mark.parametrize(("when", "follows"), [("true", "other"), ("false", "end")])
@pytest.mark.parametrize("condition_form", ["%s", '"%s"', '"{{ %s }}"', "'%s'"])
def test_a_constant_condition_is_evaluated(condition_form: str, when: str, follows: str) -> None:
    finished, _ = run(case(f"      - {{when: {condition_form % when}, then: {{next: other}}}}\n"))
    assert steps(finished)[1] == follows


@pytest.mark.parametrize(("when", "holds"), [("true", True), ("false", False), ("no", False)])
def test_a_rule_whose_condition_has_no_name_sets_nothing_unless_it_is_true(when: str, holds: bool) -> None:
    """Its condition is combined with that of the step's own way."""
    rule = f'      - {{when: "{when}", then: {{set: {{seen: 1}}}}}}\n'
    finished, _ = run(case(rule, more='    next: [{step: other, when: "{{ result.n == 3 }}"}]\n'))
    assert steps(finished)[1] == "other"
    assert [event.context["vars"] for event in finished.of("ctx.updated")] == [{"seen": 1}] * holds


FIRST_SETS = """
      - {when: "{{ event.name == 'call.done' }}", then: {set: {seen: 1}}}
      - {when: "{{ event.name == 'call.done' and result.n == 3 }}", then: {next: other}}
"""


@pytest.mark.parametrize(("mode", "follows"), [("exclusive", "end"), ("inclusive", "other")])
def test_exclusive_takes_the_first_rule_and_inclusive_all(mode: str, follows: str) -> None:
    finished, _ = run(case(FIRST_SETS, more=f"    spec: {{case_mode: {mode}}}\n").replace("noop}}\n", "noop}}\n"))
    assert steps(finished)[1] == follows
    assert finished.finish.status == "completed"


def test_a_rule_about_the_exit_has_its_turn_after_one_about_the_call_that_leads_nowhere() -> None:
    rules = """
      - {when: "{{ event.name == 'call.done' }}", then: {set: {seen: "{{ result.n }}"}}}
      - {when: "{{ event.name == 'step.exit' }}", then: {next: [{step: other, args: {n: "{{ result.n }}"}}]}}
"""
    finished, _ = run(case(rules) + "")
    assert steps(finished)[1] == "other"
    assert finished.calls[1].input == {"n": 3}


def test_a_step_without_a_tool_routes_by_a_comparison_outside_the_braces() -> None:
    rules = "    case: [{when: '{{ workload.action }} == build', then: [{step: other}], else: [{step: end}]}]\n"
    workflow = f"  - step: start\n{rules}{DONE}"
    assert steps(run(workflow, action="build")[0])[1] == "other"
    assert steps(run(workflow, action="test")[0])[1] == "end"


def test_arguments_of_a_rule_see_the_names_that_it_sets() -> None:
    rule = """
      - when: "{{ event.name == 'call.done' and result.n == 3 }}"
        then: {set: {ctx: {twice: "{{ result.n * 2 }}"}}, next: {step: other, args: {n: "{{ ctx.twice }}"}}}
"""
    assert run(case(rule))[0].calls[1].input == {"n": 6}


def test_vars_of_the_root_are_parameters() -> None:
    text = f"{HEAD}vars: {{a: 1, b: 2}}\nworkload: {{b: 3}}\nworkflow:\n  - step: start\n"
    rule = "{when: '{{ vars.a == 1 and workload.b == 3 }}', then: {fail: '{{ vars.b }}'}}"
    finished = run_text(f"{text}    tool: {{kind: noop}}\n    case: [{rule}]\n", Activity(echo))
    assert [failure.message for failure in finished.finish.failures.detailed] == ["3"]


def test_names_bound_by_a_route_override_those_of_the_tool() -> None:
    rule = "      - {when: \"{{ event.name == 'call.done' }}\", then: {next: {step: to, args: {a: 1, c: none}}}}\n"
    to = """
  - step: to
    args: {b: 2}
    tool: {kind: noop, args: {a: 0, b: 0, c: 3, d: "{{ a + 3 }}"}}
    case: [{when: true, then: {tell: {tool: {kind: noop, args: {a: 9}}}}}]
"""
    finished, _ = run(case(rule).replace(DONE, "") + to)
    assert finished.calls[1].input == {"a": 1, "b": 2, "c": "none", "d": 4}
    assert finished.calls[2].input["a"] == 9


# ---- entering -----------------------------------------------------------------------------------------------------


ENTER = """
      - {when: "{{ event.name == 'step.enter' and workload.off }}", then: {set: {why: off}, next: other}}
      - {when: "{{ event.name == 'step.enter' }}", then: {set: {made: [1]}}}
"""


def test_a_route_at_the_entry_skips_the_call() -> None:
    finished, _ = run(case(ENTER), off=True)
    assert [event.type for event in finished.events if event.node == "start"] == [
        "policy.admit.evaluated",
        "step.skipped",
        "next.evaluated",
        "ctx.updated",
    ]
    assert [call.step for call in finished.calls] == ["other", "end"]


def test_names_set_at_the_entry_are_there_for_the_call() -> None:
    finished, _ = run(case(ENTER, tool="{kind: noop, result: '{{ vars.made }}'}"), off=False)
    assert finished.calls[0].config == {"result": [1]}


# ---- what follows a call ------------------------------------------------------------------------------------------


PAGES = """
  - step: start
    tool: {kind: http, url: u, params: {page: 1, size: 2}}
    case:
      - when: "{{ event.name == 'call.done' and response.data.paging.more }}"
        then:
          - collect: {strategy: append, path: items, into: pages}
          - sink: {tool: {kind: postgres, table: t}, data: {page: "{{ response.paging.page }}"}}
          - retry: {max_attempts: 9, params: {page: "{{ response.paging.page + 1 }}"}}
      - when: "{{ event.name == 'call.done' and response.paging.more != true and response.status == 200 }}"
        then: {collect: {strategy: append, path: items, into: pages}, next: other}
"""


def test_a_retry_with_values_requests_the_next_page_and_the_last_page_takes_the_route() -> None:
    workflow = f"{PAGES}  - {{step: other, tool: {{kind: noop, result: '{{{{ start }}}}'}}}}\n"
    finished, activity = run(workflow, lambda call: page_of(call) if call.kind == "http" else echo(call))
    assert [call.config["params"] for call in finished.calls[:3]] == [{"page": n, "size": 2} for n in (1, 2, 3)]
    assert finished.finish.result == [1, 2, 3, 4, 5, 6]
    assert [row["data"] for row in activity.stored_configs] == [{"page": 1}, {"page": 2}]


def test_pages_end_with_the_calls_that_a_rule_allows() -> None:
    finished, _ = run(PAGES.replace("max_attempts: 9", "max_attempts: 2") + DONE, page_of_http)
    assert [call.step for call in finished.calls] == ["start", "start", "end"]


def test_a_rule_that_counts_pages_does_not_take_the_route_after_the_last_one() -> None:
    workflow = """
  - step: start
    tool: {kind: noop}
    case:
      - when: "{{ event.name == 'call.done' and _retry.count < 3 }}"
        then: {retry: {max_attempts: 9}}
      - when: "{{ event.name == 'call.done' }}"
        then: {next: [{step: other, args: {n: "{{ page }}"}}]}
"""
    finished, _ = run(workflow + DONE)
    assert [call.step for call in finished.calls] == ["start", "start", "start", "other", "end"]


def page_of_http(call: ToolCall) -> Any:
    return page_of(call) if call.kind == "http" else echo(call)


@pytest.mark.parametrize(
    "when", ["event.name == 'call.error' and", "event.name == 'call.done' and error is defined and"]
)
def test_an_error_is_retried_and_then_fails(when: str) -> None:
    rule = f"      - {{when: \"{{{{ {when} error.kind == 'tool' }}}}\", then: {{retry: {{max_attempts: 3}}}}}}\n"
    finished, activity = run(case(rule), lambda call: error() if call.step == "start" else None)
    assert activity.attempts.count("start_task") == 3
    assert finished.finish.status == "failed"


def test_a_call_again_with_names_is_rendered_again() -> None:
    workflow = """
  - step: start
    args: {cursor: a}
    tool: {kind: noop, message: "at {{ cursor }}", result: "{{ cursor }}"}
    case:
      - {when: "{{ event.name == 'call.done' and response == 'a' }}", then: {call: {args: {cursor: b}}}}
"""
    finished, _ = run(workflow + DONE)
    assert [call.config["message"] for call in finished.calls[:2]] == ["at a", "at b"]
    assert finished.calls[1].input == {"cursor": "b"}


def test_a_call_again_after_an_error_fails_when_no_call_is_left() -> None:
    rule = """
      - {when: "{{ event.name == 'call.error' }}", then: {retry: {max_attempts: 2, args: {result: 1}}}}
"""
    finished, activity = run(case(rule), lambda call: error("broken") if call.step == "start" else None)
    assert activity.attempts.count("start_task") == 2
    assert [failure.message for failure in finished.finish.failures.detailed] == ["broken"]


@pytest.mark.parametrize(
    ("then", "status", "message"),
    [
        ("{fail: '{{ result.n }} is wrong'}", "failed", "3 is wrong"),
        ("{fail: true}", "failed", "the task's policy failed it"),
        ("{fail: false, next: other}", "completed", ""),
    ],
)
def test_a_rule_fails_a_successful_call(then: str, status: str, message: str) -> None:
    finished, _ = run(case(f"      - {{when: \"{{{{ event.name == 'call.done' }}}}\", then: {then}}}\n"))
    assert finished.finish.status == status
    assert "".join(failure.message for failure in finished.finish.failures.detailed) == message


def test_a_skipped_error_may_take_a_route() -> None:
    rule = "      - {when: \"{{ event.name == 'call.error' }}\", then: {skip: true, next: other}}\n"
    finished, _ = run(case(rule), lambda call: error("gone") if call.step == "start" else echo(call))
    assert (finished.finish.status, steps(finished)) == ("completed", ["start", "other", "end"])


def test_a_rule_skips_an_error() -> None:
    rule = (
        "      - {when: \"{{ event.name == 'call.error' }}\", then: {skip: true, set: {why: '{{ error.message }}'}}}\n"
    )
    workflow = case(rule).replace(
        "{step: end, tool: {kind: noop}}", "{step: end, tool: {kind: noop, result: '{{ vars.why }}'}}"
    )
    finished, _ = run(workflow, lambda call: error("gone") if call.step == "start" else echo(call))
    assert (finished.finish.status, steps(finished)) == ("completed", ["start", "end"])
    assert finished.finish.result == "gone"


@pytest.mark.parametrize(
    ("on_error", "status", "calls"), [("fail", "failed", 1), ("continue", "completed", 1), ("retry", "failed", 3)]
)
def test_the_spec_decides_about_other_errors(on_error: str, status: str, calls: int) -> None:
    rule = "      - {when: \"{{ event.name == 'call.done' }}\", then: {next: other}}\n"
    workflow = case(rule, more=f"    spec: {{on_error: {on_error}}}\n")
    finished, activity = run(workflow, lambda call: error() if call.step == "start" else None)
    assert finished.finish.status == status
    assert activity.attempts.count("start_task") == calls


def test_a_rule_gives_the_step_another_result() -> None:
    rule = """
      - {when: "{{ event.name == 'call.done' }}", then: {result: {from: response.n}, next: other}}
"""
    finished, _ = run(
        case(rule).replace(
            "{step: other, tool: {kind: noop}", "{step: other, tool: {kind: noop, result: '{{ start }}'}"
        )
    )
    assert finished.calls[1].config["result"] == 3


def test_a_rule_is_about_its_call_whatever_the_steps_result_is() -> None:
    rule = """
      - when: "{{ event.name == 'call.done' and result.n == 3 }}"
        then: {result: none, next: {step: other, args: {n: "{{ response.n + result.n }}"}}}
"""
    finished, _ = run(case(rule))
    assert finished.calls[1].input == {"n": 6}


def test_vars_of_a_paginating_step_are_made_of_all_pages() -> None:
    workflow = PAGES.replace(
        "    case:", "    vars: {all: '{{ result }}', last: '{{ response.paging.page }}'}\n    case:"
    )
    finished, _ = run(
        f"{workflow}  - {{step: other, tool: {{kind: noop, result: '{{{{ [vars.all, vars.last] }}}}'}}}}\n",
        page_of_http,
    )
    assert finished.finish.result == [[1, 2, 3, 4, 5, 6], 3]


BODY = {"data": [1], "status": "active", "paging": {"page": 2}}
RESPONSE = {"status_code": 201, "headers": {"a": "b"}, "url": "u", "elapsed": 1, "data": BODY}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("response.status == 201 and response.status == 'success'", True),
        ("response.status == 200 or response.status == 'error'", False),
        ("response.status", 201),
        ("result.status", 201),
        ("response.status_code", 201),
        ("response.metadata.status_code", 201),
        ("response.metadata.headers.a", "b"),
        ("response.data", BODY),
        ("response.data.data", [1]),
        ("response.data.status", "active"),
        ("response.data.paging.page", 2),
        ("response.paging.page", 2),
        ("response.body.paging.page", 2),
    ],
)
def test_a_response_is_seen_in_the_shapes_of_the_dialects_weeks(expression: str, value: Any) -> None:
    then = f"{{set: {{seen: '{{{{ {expression} }}}}'}}}}".replace("'success'", '"success"').replace(
        "'error'", '"error"'
    )
    rule = f"      - {{when: \"{{{{ event.name == 'call.done' }}}}\", then: {then}}}\n"
    end = "  - {step: end, tool: {kind: noop, result: '{{ vars.seen }}'}}\n"
    workflow = f"  - step: start\n    tool: {{kind: http, url: u}}\n    case:\n{rule}{end}"
    finished, _ = run(workflow, lambda call: RESPONSE if call.kind == "http" else echo(call))
    assert (finished.finish.status, finished.finish.result) == ("completed", value)


# ---- work beside a call -------------------------------------------------------------------------------------------


BESIDE = """
      - when: "{{ event.name == 'call.error' }}"
        then:
          - set: {why: "{{ error.message }}"}
          - tell: {tool: {kind: noop, message: "{{ vars.why }} at {{ event.step }}"}}
          - sink: {tool: postgres, table: failure, data: {why: "{{ error.message }}"}}
          - next: other
      - when: "{{ event.name == 'call.done' }}"
        then: {tell: {tool: {kind: noop, message: "{{ result.n }} {{ response.n }}"}}, next: other}
"""


def test_a_task_beside_a_call_sees_its_outcome_and_leaves_its_result() -> None:
    workflow = case(BESIDE).replace(
        "{step: end, tool: {kind: noop}}", "{step: end, tool: {kind: noop, result: '{{ start }}'}}"
    )
    finished, _ = run(workflow)
    assert [call.task for call in finished.calls] == ["start_task", "tell_2", "other_task", "end_task"]
    assert finished.calls[1].config["message"] == "3 3"
    assert finished.finish.result == {"n": 3}


def test_a_task_beside_a_failed_call_runs_before_the_failure_is_handled() -> None:
    finished, activity = run(case(BESIDE), lambda call: error("gone") if call.task == "start_task" else echo(call))
    assert [call.task for call in finished.calls[:3]] == ["start_task", "start_case_1", "tell"]
    assert finished.calls[2].config["message"] == "gone at start"
    assert [row["data"] for row in activity.stored_configs] == [{"why": "gone"}]
    assert steps(finished) == ["start", "other", "end"]
    assert finished.of("step.failed")[0].error == "gone"
    assert finished.finish.status == "completed"


def test_an_error_whose_retries_are_exhausted_is_handled_by_the_next_rule() -> None:
    retry_rule = "      - {when: \"{{ event.name == 'call.error' and error.kind == 'tool' }}\", then: {retry: 2}}\n"
    finished, activity = run(
        case(retry_rule + BESIDE), lambda call: error() if call.task == "start_task" else echo(call)
    )
    assert activity.attempts[:4] == ["start_task", "start_task", "start_case_2", "tell"]
    assert steps(finished) == ["start", "other", "end"]


def test_a_failure_stays_the_calls_when_the_task_beside_it_fails_too() -> None:
    finished, _ = run(case(BESIDE.replace("          - next: other\n", "")), lambda _: error("gone"))
    assert [failure.message for failure in finished.finish.failures.detailed][:1] == ["gone"]
    assert finished.finish.failures.detailed[0].task == "start_task"


def test_every_matching_rule_of_an_inclusive_case_works() -> None:
    rules = """
      - {when: "{{ event.name == 'call.done' and result.n > 1 }}", then: {set: {a: 1}}}
      - {when: "{{ event.name == 'call.done' and result.n > 9 }}", then: {set: {b: 1}}}
      - {when: "{{ event.name == 'call.done' and result.n > 2 }}", then: {tell: {tool: {kind: noop}}, next: other}}
      - {else: {set: {c: 1}}}
"""
    workflow = case(rules, more="    spec: {case_mode: inclusive}\n").replace(
        "{step: end, tool: {kind: noop}}",
        '{step: end, tool: {kind: noop, result: "{{ [ctx.a, ctx.b | default(0), ctx.c | default(0)] }}"}}',
    )
    finished, _ = run(workflow)
    assert finished.finish.result == [1, 0, 0]
    assert "tell" in [call.task for call in finished.calls]


AFTER_NEXT = """
      - {when: "{{ event.name == 'call.done' and result.n > 1 }}", then: {before: {tool: {kind: noop}}, set: {a: 1}}}
      - {when: "{{ event.name == 'call.done' and result.n > 9 }}", then: {next: end, set: {b: 1}}}
      - {when: "{{ event.name == 'call.done' and result.n > 2 }}", then: {next: other, set: {c: 1}}}
      - {when: "{{ event.name == 'call.done' }}", then: {after: {tool: {kind: noop}}}}
      - {when: "{{ event.name == 'call.done' }}", then: {set: {d: 1}}}
      - {when: "{{ event.name == 'call.done' }}", then: {next: end}}
      - {when: "{{ event.name == 'call.done' }}", then: {fail: too late}}
"""


def test_the_first_next_that_is_reached_ends_an_inclusive_case() -> None:
    found, _ = run(case(AFTER_NEXT, more="    spec: {case_mode: inclusive}\n"))
    assert found.finish.status == "completed", found.finish.failures
    assert steps(found) == ["start", "other", "end"]
    assert {"before", "after"} & {call.task for call in found.calls} == {"before"}
    assert sorted({name for event in found.of("ctx.updated") for name in event.context["vars"]}) == ["a", "c"]


def test_a_next_ends_an_inclusive_case_for_its_outcome_alone() -> None:
    rules = """
      - {when: "{{ event.name == 'call.error' }}", then: {next: other}}
      - {when: "{{ event.name == 'call.done' }}", then: {told: {tool: {kind: noop}}}}
"""
    found, _ = run(case(rules, more="    spec: {case_mode: inclusive}\n"))
    assert "told" in [call.task for call in found.calls]


def test_a_retry_does_not_end_an_inclusive_case() -> None:
    rules = """
      - {when: "{{ event.name == 'call.done' and attempt < 2 }}", then: {retry: {params: {page: 2}}}}
      - {when: "{{ event.name == 'call.done' }}", then: {sink: {tool: {kind: postgres, table: t}}}}
"""
    found, _ = run(case(rules, more="    spec: {case_mode: inclusive}\n"))
    guards = [sink.guard for call in found.calls for sink in call.sinks]
    assert guards
    assert not any(guard.unless for guard in guards if guard)


OTHERWISE = """
      - {when: "{{ event.name == 'call.done' and result.n == N }}", then: {set: {a: 1}}}
      - {else: ELSE}
"""


@pytest.mark.parametrize("mode", ["exclusive", "inclusive"])
@pytest.mark.parametrize(("n", "follows", "status"), [(3, "end", "completed"), (4, "other", "failed")])
def test_else_acts_only_where_nothing_matches(mode: str, n: int, follows: str, status: str) -> None:
    def outcome(action: str) -> Run:
        rules = OTHERWISE.replace("N}", f"{n}}}").replace("== N", f"== {n}").replace("ELSE", action)
        return run(case(rules, more=f"    spec: {{case_mode: {mode}}}\n"))[0]

    assert steps(outcome("{next: other}"))[1] == follows
    assert outcome("{fail: nothing matched}").finish.status == status
    beside = [call.task for call in outcome("{tell: {tool: {kind: noop}}}").calls]
    assert ("tell" in beside) is (status == "failed")


def test_the_final_step_may_have_rules() -> None:
    rule = "{when: \"{{ event.name == 'call.done' and result.n == 3 }}\", then: {fail: wrong}}"
    finished, _ = run(f"  - step: end\n    tool: {{kind: noop, result: {{n: 3}}}}\n    case: [{rule}]\n")
    assert finished.finish.status == "failed"
