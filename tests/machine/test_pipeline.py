"""Tasks of a step: order, policies, jumps, pages, sets, sinks."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noetl_temporal.machine.call import AttemptRecord, ToolCall, ToolReport
from noetl_temporal.machine.policy import decide
from noetl_temporal.machine.scope import Chain, outcome_names

from .activity import Activity
from .driver import error, ok, run_text, worker_lost
from .playbooks import playbook, step


def apply_policy(call: ToolCall, report: ToolReport) -> ToolReport:
    """The report as the activity would send it: with the rule that its outcome matches."""
    names = Chain(outcome_names(call.kind, report.outcome, 1, call.page or 1), call.scope)
    result = decide(call.rules or (), report.outcome["status"], names, 99)
    record = AttemptRecord(1, 0, "ok" if report.outcome["status"] == "ok" else "error")
    return ToolReport(report.outcome, result.rule, result.exhausted, (record,))


def pipeline(tasks: str, following_steps: str = "", head: str = "") -> str:
    return playbook(f"  - step: start\n    tool:\n{tasks}{following_steps}", head)


def test_tasks_run_in_order_and_the_step_has_the_last_result() -> None:
    text = pipeline("      - {name: a, kind: noop}\n      - {name: b, kind: noop, input: {got: '{{ a.x }}'}}\n")
    run = run_text(text, lambda call: {"x": 1} if call.task == "a" else {"y": call.input["got"]})
    assert [call.task for call in run.calls] == ["a", "b"]
    assert run.finish.result == {"y": 1}


@pytest.mark.parametrize(
    ("rules", "task_names", "status"),
    [
        ("", ["a"], "failed"),
        ("[{when: \"{{ output.status == 'error' }}\", then: {do: continue}}]", ["a", "b"], "completed"),
        ("[{when: \"{{ output.status == 'error' }}\", then: {do: break}}]", ["a"], "completed"),
        ("[{when: \"{{ output.status == 'error' }}\", then: {do: fail}}]", ["a"], "failed"),
        ("[{when: \"{{ output.status == 'nothing' }}\", then: {do: fail}}]", ["a", "b"], "completed"),
        ("[{else: {then: {do: continue}}}]", ["a", "b"], "completed"),
    ],
)
def test_actions_of_a_policy_after_an_error(rules: str, task_names: list[str], status: str) -> None:
    policy = f", spec: {{policy: {{rules: {rules}}}}}" if rules else ""
    text = pipeline(f"      - {{name: a, kind: noop{policy}}}\n      - {{name: b, kind: noop}}\n")
    run = run_text(text, lambda call: apply_policy(call, error() if call.task == "a" else ok(1)))
    assert [call.task for call in run.calls] == task_names
    assert run.finish.status == status


RESCUED_TASKS = (
    "[{{when: \"{{{{ output.status == 'error' }}}}\", then: {{do: {do}, result: {result}, set: {{ctx.why: {why}}}}}}}]"
)


@pytest.mark.parametrize(("do", "task_names"), [("continue", ["a", "b"]), ("break", ["a"])])
def test_the_result_of_a_rule_counts_on_an_error(do: str, task_names: list[str]) -> None:
    rules = RESCUED_TASKS.format(
        do=do, result="{found: false, code: '{{ error.code }}'}", why="'{{ output.error.kind }}'"
    )
    text = pipeline(
        f"      - {{name: a, kind: noop, spec: {{policy: {{rules: {rules}}}}}}}\n"
        "      - {name: b, kind: noop, input: {found: '{{ a.found }}', told: '{{ output }}', why: '{{ ctx.why }}'}}\n"
    )
    failed = {"status": "error", "error": {"kind": "not_found", "message": "no", "code": "HTTP_404"}}
    run = run_text(text, lambda call: apply_policy(call, ToolReport(failed) if call.task == "a" else ok(call.input)))
    data = {"found": False, "code": "HTTP_404"}
    assert [call.task for call in run.calls] == task_names
    assert run.finish.status == "completed"
    assert run.finish.result == (data if do == "break" else {"found": False, "told": data, "why": "not_found"})
    assert [event.error for event in run.of("task.failed")] == ["no"], "the log has what happened"


def test_an_exhausted_rule_keeps_the_error_beside_its_result() -> None:
    rules = "[{when: \"{{ output.status == 'error' }}\", then: {do: retry, attempts: 2, result: {tried: true}}}]"
    text = pipeline(f"      - {{name: a, kind: noop, spec: {{policy: {{rules: {rules}}}}}}}\n")
    failed = ToolReport({"status": "error", "error": {"kind": "timeout", "message": "late"}}, rule=0, exhausted=True)
    run = run_text(text, lambda call: failed)
    assert (run.finish.status, run.finish.failures.detailed[0].message) == ("failed", "late")


def test_a_failed_step_has_the_response_of_the_server() -> None:
    answer = {"status_code": 409, "data": {"reason": "taken"}}
    failed = {"status": "error", "error": {"kind": "client_error", "message": "no", "status": 409}, "result": answer}
    following_steps = """    next: [{step: repair, when: "{{ output.data.reason == 'taken' }}"}]
  - step: repair
    tool: {kind: noop, result: "{{ start.data.reason }} {{ start.http.status }} {{ start.error.kind }}"}
"""
    text = pipeline("      - {name: a, kind: http, url: http://api.test}\n", following_steps)
    report = ToolReport({**failed, "http": {"status": 409, "headers": {}}})
    run = run_text(text, lambda call: report if call.kind == "http" else call.config["result"])
    assert run.finish.result == "taken 409 client_error"
    alone = run_text(pipeline("      - {name: a, kind: http, url: http://api.test}\n"), lambda _call: report)
    assert (alone.finish.status, alone.finish.result) == ("failed", None)


def test_an_unmatched_error_fails_if_the_policy_fails() -> None:
    policy = "spec: {policy: {on_unmatched: fail, rules: [{when: '{{ false }}', then: {do: continue}}]}}"
    run = run_text(pipeline(f"      - {{name: a, kind: noop, {policy}}}\n"), lambda call: apply_policy(call, error()))
    assert run.finish.status == "failed"


JUMPING = """
      - {name: init, kind: noop, spec: {policy: {rules: [{else: {then: {do: continue, set: {iter.page: 1}}}}]}}}
      - {name: fetch, kind: noop, message: "{{ iter.page }}"}
      - name: paginate
        kind: noop
        spec:
          policy:
            rules:
              - when: "{{ iter.page < 3 }}"
                then: {do: jump, to: fetch, set: {iter.page: "{{ iter.page + 1 }}"}}
              - else: {then: {do: break}}
      - {name: never, kind: noop}
"""


def test_jump_goes_round_until_break() -> None:
    run = run_text(pipeline(JUMPING), lambda call: apply_policy(call, ok(call.config.get("message"))))
    assert [call.config["message"] for call in run.calls if call.task == "fetch"] == [1, 2, 3]
    assert "never" not in {call.task for call in run.calls}


PAGES = """
apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: pages, path: tests/pages}
workflow:
  - step: start
    next: [{step: fetch}]
  - step: fetch
    tool: http
    url: http://api.test/items
    params: {page: 1}
    retry:
      on_success:
        while: "{{ response.more }}"
        max_attempts: MAX
        next_call: {params: {page: "{{ response.page + 1 }}"}}
        collect: {strategy: STRATEGY, path: PATH, into: pages}
    next: [{step: end}]
  - step: end
"""


def a_page(call: ToolCall) -> ToolReport:
    page = call.config["params"]["page"]
    body = {"items": [page * 10, page * 10 + 1], "page": page, "more": page < 3}
    return apply_policy(call, ok({"status_code": 200, "data": body}, http={"status": 200}))


@pytest.mark.parametrize(
    ("strategy", "path", "limit", "expected"),
    [
        ("append", "items", 10, [10, 11, 20, 21, 30, 31]),
        ("append", "items", 2, [10, 11, 20, 21]),
        ("append", "items", 1, [10, 11]),
        ("collect", "items", 10, [[10, 11], [20, 21], [30, 31]]),
        ("replace", "items", 10, [30, 31]),
        ("merge", "''", 10, {"items": [30, 31], "page": 3, "more": False}),
    ],
)
def test_pages_are_collected(strategy: str, path: str, limit: int, expected: Any) -> None:
    text = PAGES.replace("MAX", str(limit)).replace("STRATEGY", strategy).replace("PATH", path)
    run = run_text(text, a_page)
    assert run.finish.result == expected


def test_the_first_form_of_pagination_calls_the_body_the_data_of_the_response() -> None:
    retry = PAGES[PAGES.index("    retry:") : PAGES.index("    next: [{step: end}]")]
    text = PAGES.replace(
        retry,
        """    loop:
      pagination:
        continue_while: "{{ response.data.more }}"
        next_page: {params: {page: "{{ response.data.page + 1 }}"}}
        merge_path: data.data
""",
    )

    def a_page_of_data(call: ToolCall) -> ToolReport:
        page = call.config["params"]["page"]
        body = {"data": [page], "page": page, "more": page < 3}
        return apply_policy(call, ok({"status_code": 200, "data": body}, http={"status": 200}))

    assert run_text(text, a_page_of_data).finish.result == [1, 2, 3]


def test_each_page_is_a_task_execution_of_its_own() -> None:
    run = run_text(PAGES.replace("MAX", "9").replace("STRATEGY", "append").replace("PATH", "items"), a_page)
    started, done = run.of("task.started"), run.of("task.done")
    assert [event.meta["page"] for event in started] == [1, 2, 3]
    assert [event.parent for event in started[1:]] == [event.id for event in done[:-1]]
    assert [event.parent for event in done[1:]] == [event.id for event in done[:-1]]
    assert done[-1].meta["sequence"] == {"pages": 3, "strategy": "append"}
    assert len({call.key for call in run.calls}) == 3


@pytest.mark.parametrize(("limit", "is_cut"), [(2, True), (3, False), (4, False)])
def test_pages_beyond_the_limit_are_reported(limit: int, is_cut: bool) -> None:
    run = run_text(PAGES.replace("MAX", str(limit)).replace("STRATEGY", "append").replace("PATH", "items"), a_page)
    assert ("exhausted" in run.of("task.done")[-1].meta["sequence"]) == is_cut
    warnings = [event.error for event in run.of("warning")]
    assert warnings == ["fetch: there are more pages than the 2 that this rule allows; raise its attempts"] * is_cut


def test_a_path_may_name_the_body_of_the_response() -> None:
    """``response.data.items`` and ``response.items`` are the same in conditions."""
    text = PAGES.replace("MAX", "9").replace("STRATEGY", "append").replace("PATH", "data.items")
    run = run_text(text.replace("response.more", "response.data.more"), a_page)
    assert run.finish.result == [10, 11, 20, 21, 30, 31]
    assert run.of("task.done")[-1].result == run.finish.result, "the last row of the pages has all of them"


def test_a_missing_path_fails_the_step() -> None:
    run = run_text(PAGES.replace("MAX", "9").replace("STRATEGY", "append").replace("PATH", "nothing"), a_page)
    assert run.finish.status == "failed"
    assert "nothing to collect" in run.finish.failures.detailed[0].message


def test_set_renders_everything_against_the_scope_before() -> None:
    text = playbook(
        """
  - step: start
    tool: {kind: noop}
    set: {ctx.a: "{{ workload.a + 1 }}", ctx.b: "{{ ctx.a | default('none yet') }}", ctx.deep.er: 3}
    next: {arcs: [{step: use}]}
  - step: use
    tool: {kind: noop, message: "{{ ctx.a }} {{ ctx.b }} {{ ctx.deep.er }} {{ a }}"}
""",
        "workload: {a: 1}\n",
    )
    run = run_text(text, lambda call: call.config.get("message"))
    assert run.finish.result == "2 1 3 2"
    assert run.of("ctx.updated")[0].meta["targets"] == ["ctx.a", "ctx.b", "ctx.deep.er"]


def test_a_lost_call_is_decided_by_the_machine() -> None:
    is_worker_lost = "\"{{ output.error.kind == 'worker_lost' }}\""
    policy = f"spec: {{policy: {{rules: [{{when: {is_worker_lost}, then: {{do: retry, attempts: 2}}}}]}}}}"
    text = pipeline(f"      - {{name: a, kind: noop, {policy}}}\n")
    run = run_text(text, lambda call: worker_lost() if call.id.endswith(":1") else ok("second"))
    assert run.finish.result == "second"
    assert run.of("policy.task.evaluated")[0].meta["do"] == "retry"


def test_every_page_has_its_own_calls_after_a_loss() -> None:
    retry_rule = "{when: \"{{ output.error.kind == 'worker_lost' }}\", then: {do: retry, attempts: 2}}"
    more = "{when: '{{ output.data.more }}', then: {do: again, attempts: 9}}"
    policy = f"{{rules: [{retry_rule}, {more}], on_unmatched: fail}}"
    text = pipeline(f"      - {{name: a, kind: noop, spec: {{policy: {policy}}}}}\n")
    pages = iter([None, {"more": True}, None, {"more": True}, None, {"more": False}])

    def answer(_call: ToolCall) -> ToolReport:
        page = next(pages)
        if page is None:
            return worker_lost()
        return ToolReport({"status": "ok", "result": page}, rule=1 if page["more"] else None)

    run = run_text(text, answer)
    assert (run.finish.status, len(run.calls)) == ("completed", 6)


def test_the_request_overrides_the_workload_deeply_and_its_text_is_never_rendered() -> None:
    text = playbook(
        '  - step: start\n    tool: {kind: noop, message: "{{ workload.a.x }} {{ workload.a.y }} {{ workload.t }}"}\n',
        'workload: {a: {x: 1, y: 2}, t: "{{ payload.who }}"}\n',
    )
    run = run_text(text, lambda call: call.config.get("message"), {"a": {"y": "{{ 1/0 }}"}, "who": "me"})
    assert run.finish.result == "1 {{ 1/0 }} me"


def test_a_default_that_reads_its_own_name_has_the_value_of_the_request() -> None:
    text = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x}
workload:
  a_path: "{{ a_path | default('a/' + tenant) }}"
  tenant: "{{ tenant | default('ours') }}"
  of: "{{ workload.of | default('all') }}"
  both: "{{ tenant }}/{{ workload.of }}/{{ a_path }}"
workflow: [{step: start, tool: {kind: noop, result: "{{ both }}"}}]
"""
    assert run_text(text, lambda call: call.config).calls[0].config == {"result": "ours/all/a/ours"}
    assert run_text(text, lambda call: call.config, {"tenant": "theirs"}).calls[0].config == {
        "result": "theirs/all/a/theirs"
    }


def test_a_workload_without_value_refuses_the_run() -> None:
    run = run_text(playbook(step("start"), 'workload: {t: "{{ payload.nope }}"}\n'), lambda _call: None)
    assert run.finish.status == "failed"
    assert run.calls == []
    assert run.types()[-1] == "playbook.failed"


def test_names_bound_by_a_step_are_rendered_once() -> None:
    run = run_text(
        playbook(
            "  - step: start\n    input: {city: '{{ city.name }}'}\n    tool: {kind: noop}\n",
            "workload: {city: {name: Rome}}\n",
        ),
        lambda call: call.input,
    )
    assert run.calls[0].input == {"city": "Rome"}


def test_a_break_holds_after_the_sinks_of_its_task() -> None:
    sink = "sink: {tool: postgres, auth: pg, table: t, data: {n: 1}, level: task}"
    rules = "policy: {rules: [{when: '{{ true }}', then: {do: break}}]}"
    text = pipeline(f"      - {{name: a, kind: noop, spec: {{{rules}}}, {sink}}}\n      - {{name: b, kind: noop}}\n")
    ending_report = msgspec.structs.replace(ok(1), rule=0)
    run = run_text(text, lambda call: ending_report if call.outcome_to_store is None else ok(1))
    assert [call.task for call in run.calls] == ["a", "a"]


def test_a_retry_of_successes_without_attempts_left_names_its_rule() -> None:
    rules = "[{when: '{{ output.data.more }}', then: {do: retry, attempts: 2, delay: 0}}]"
    run = run_text(
        pipeline(f"      - {{name: a, kind: noop, spec: {{policy: {{rules: {rules}}}}}}}\n"),
        Activity(lambda _: {"more": True}),
    )
    [failure] = run.finish.failures.detailed
    assert failure.kind == "policy"
    assert failure.message == f"the rule at line {failure.line} retries this success, and its attempts are used up"
