"""The compiler's tables of names say what a run really binds."""

from __future__ import annotations

import datetime
import json
from collections.abc import Collection
from typing import Any

import msgspec
import pytest

from noetl_activities.outcome import ErrorInfo
from noetl_compiler.language import names as tables
from noetl_temporal.machine.views.outcome import ErrorView
from tests.machine.activity import Activity
from tests.machine.driver import error, run_text
from tests.machine.playbooks import playbook

OUTCOME = frozenset(tables.OUTCOME)
ONLY_OF_AN_ERROR = {"error"}
ONLY_OF_HTTP = {"status_code"}


def ask(names: Collection[str]) -> str:
    """A mapping from each name to whether it is bound."""
    return json.dumps({name: f"{{{{ {name} is defined }}}}" for name in sorted(names)})


def bound_names(answers: dict[str, Any]) -> set[str]:
    return {name for name, is_bound in answers.items() if is_bound}


EVERY = tables.RUN | tables.ITERATION | tables.PIPELINE | OUTCOME | tables.EVENT | tables.PREVIOUS_OUTCOME
SOURCES = {
    tables.RUN: f"  - step: start\n    tool: {{kind: noop, message: {ask(EVERY)}}}\n",
    tables.RUN | tables.ITERATION: (
        f"  - step: start\n    loop: {{in: [1], iterator: one}}\n    tool: {{kind: noop, message: {ask(EVERY)}}}\n"
    ),
    tables.RUN | tables.PREVIOUS_OUTCOME: (
        "  - step: start\n    tool:\n      - {name: first, kind: noop}\n"
        f"      - {{name: second, kind: noop, message: {ask(EVERY)}}}\n"
    ),
}


@pytest.mark.parametrize("names", SOURCES)
def test_a_task_sees_what_the_table_says(names: frozenset[str]) -> None:
    run = run_text(playbook(SOURCES[names]), lambda call: call.config)
    assert bound_names(run.calls[-1].config["message"]) == (names | tables.PIPELINE) - tables.ENVIRONMENT


def test_the_final_step_sees_what_the_table_says() -> None:
    every = EVERY | tables.FINAL_STEP_NAMES
    text = playbook(
        f"  - {{step: start, tool: {{kind: noop, message: {ask(every)}}}}}\n"
        f"  - {{step: end, tool: {{kind: noop, message: {ask(every)}}}}}\n"
    )
    start, end = run_text(text, lambda call: call.config).calls
    assert bound_names(start.config["message"]) == (tables.RUN | tables.PIPELINE) - tables.ENVIRONMENT
    assert (
        bound_names(end.config["message"])
        == (tables.RUN | tables.PIPELINE | tables.FINAL_STEP_NAMES) - tables.ENVIRONMENT
    )


@pytest.mark.parametrize("fails", [False, True])
def test_a_route_sees_the_names_in_the_table(fails: bool) -> None:
    when = "{{ event.name is defined }}"
    text = playbook(
        "  - step: start\n    tool: {kind: http, url: u}\n"
        f"    next: {{arcs: [{{step: end, when: '{when}', set: {{ctx.seen: {ask(EVERY)}}}}}]}}\n"
        "  - step: end\n    tool: {kind: noop, message: '{{ ctx.seen }}'}\n"
    )

    def answer(call: Any) -> Any:
        return call.config if call.kind == "noop" else error(http={"status": 500}) if fails else {"status_code": 200}

    run = run_text(text, answer)
    absent = tables.ENVIRONMENT if fails else tables.ENVIRONMENT | ONLY_OF_AN_ERROR | ONLY_OF_HTTP
    assert bound_names(run.calls[-1].config["message"]) == (tables.RUN | OUTCOME | tables.EVENT) - absent


def test_the_workload_sees_what_the_table_says() -> None:
    workload = f"workload: {{own: 1, seen: {ask({*EVERY, 'own', 'asked'})}}}\n"
    text = playbook("  - step: start\n    tool: {kind: noop, message: '{{ workload.seen }}'}\n", workload)
    run = run_text(text, lambda call: call.config, {"asked": 1})
    assert bound_names(run.calls[0].config["message"]) == (tables.WORKLOAD_DEFAULTS - tables.ENVIRONMENT) | {
        "own",
        "asked",
    }


def test_an_iteration_has_its_counts() -> None:
    counts = [f"iter.{mark}{name}" for name in tables.BELOW_ITER for mark in ("", "_")]
    text = playbook(
        f"  - step: start\n    loop: {{in: [1], iterator: one}}\n    tool: {{kind: noop, message: {ask(counts)}}}\n"
    )
    assert bound_names(run_text(text, lambda call: call.config).calls[0].config["message"]) == set(counts)


@pytest.mark.parametrize("loop", ["", "    loop: {in: [1], iterator: one}\n"])
def test_values_set_in_iter_are_visible_as_bare_names(loop: str) -> None:
    text = playbook(
        f"  - step: start\n{loop}    tool:\n"
        "      - {name: first, kind: noop, set: {iter.made: '{{ output.data }}'}}\n"
        "      - {name: second, kind: noop, message: '{{ made }}{{ output.data }}'}\n"
    )
    run = run_text(text, lambda call: call.config.get("message", 5))
    assert run.calls[-1].config["message"] == "55"


def test_vars_are_the_older_name_of_ctx() -> None:
    text = playbook(
        "  - step: start\n    tool: {kind: noop}\n    set: {ctx.made: 5}\n    next: {arcs: [{step: use}]}\n"
        "  - step: use\n    tool: {kind: noop, message: '{{ vars.made }}'}\n"
    )
    assert run_text(text, lambda call: call.config.get("message")).finish.result == 5


CASE = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x}\nworkflow:\n  - step: start\n"


@pytest.mark.parametrize(
    "actions",
    [
        "{set: {seen: ASKED}, next: end}",
        "[{set: {seen: ASKED}}, {beside: {tool: {kind: noop}}}, {next: end}]",
        "[{beside: {tool: {kind: noop, set: {ctx.seen: ASKED}}}}, {next: end}]",
    ],
)
def test_a_case_rule_sees_what_the_table_says(actions: str) -> None:
    rule = f"{{when: '{{{{ event.name == \"call.done\" }}}}', then: {actions.replace('ASKED', ask(EVERY))}}}"
    text = (
        f"{CASE}    tool: {{kind: http, url: u}}\n    case: [{rule}]\n"
        "  - step: end\n    tool: {kind: noop, message: '{{ vars.seen }}'}\n"
    )
    run = run_text(text, Activity(lambda call: call.config if call.kind == "noop" else {"status_code": 200}))
    absent = tables.ENVIRONMENT | ONLY_OF_AN_ERROR | ONLY_OF_HTTP
    visible_names = bound_names(run.calls[-1].config["message"]) - tables.PIPELINE
    assert visible_names == (tables.RUN | OUTCOME | tables.EVENT) - absent


def test_a_rule_for_entering_a_step_reads_its_event() -> None:
    rule = f"{{when: '{{{{ event.name == \"step.enter\" }}}}', then: {{set: {{seen: {ask(EVERY)}}}}}}}"
    text = f"{CASE}    tool: {{kind: noop, message: '{{{{ vars.seen }}}}'}}\n    case: [{rule}]\n"
    run = run_text(text, lambda call: call.config)
    assert bound_names(run.calls[0].config["message"]) == (tables.RUN | tables.EVENT) - tables.ENVIRONMENT


def test_results_has_the_tasks_before_and_the_steps_before() -> None:
    text = playbook(
        "  - step: start\n    tool: {kind: noop}\n    next: {arcs: [{step: use}]}\n"
        "  - step: use\n    tool:\n      - {name: first, kind: noop}\n"
        "      - {name: second, kind: noop, message: '{{ results.start }}{{ results.first }}'}\n"
    )
    run = run_text(text, lambda call: call.config.get("message", 5))
    assert run.calls[-1].config["message"] == "55"


def test_now_is_the_time_of_what_the_run_works_on() -> None:
    workflow = """  - step: start
    loop: {in: [1, 2], iterator: item}
    tool: {kind: noop, message: ["{{ workload.began }}", "{{ now() }}", "{{ now().year }}"]}
"""
    run = run_text(playbook(workflow, 'workload: {began: "{{ now() }}"}\n'), lambda call: call.config)
    first, second = (call.config["message"] for call in run.calls)
    assert first[0] == second[0]
    assert first[0] <= first[1] < second[1]
    assert first[2] == datetime.datetime.fromisoformat(first[1]).year


@pytest.mark.parametrize("name", ["job", "workload", "ctx", "results", "keychain", "vars"])
def test_names_bound_by_a_playbook_hide_names_of_the_engine(name: str) -> None:
    text = playbook(
        f"  - step: start\n    loop: {{in: [{{title: a}}], iterator: {name}}}\n"
        f"    tool: {{kind: noop, message: '{{{{ {name}.title }}}}'}}\n"
    )
    assert run_text(text, lambda call: call.config).calls[0].config["message"] == "a"


def test_names_bound_by_a_call_hide_steps_in_conditions() -> None:
    """NT308 warns of it, and names where the result is found."""
    text = playbook(
        "  - step: page\n    tool: {kind: noop}\n"
        "    next: {arcs: [{step: wrong, when: '{{ page.more is defined }}'},"
        " {step: right, when: '{{ page == 1 and results.page.more }}'}]}\n"
        "  - step: wrong\n    tool: {kind: noop, message: wrong}\n"
        "  - step: right\n    tool: {kind: noop, message: right}\n"
    )
    run = run_text(text, lambda call: call.config.get("message", {"more": True}))
    assert run.finish.result == "right"


def test_the_result_of_each_task_is_below_that_of_its_step() -> None:
    """As the hint of NT303 says."""
    text = playbook(
        "  - step: start\n    tool: [{name: a, kind: http, url: u}, {name: b, kind: http, url: u}]\n"
        "    next: {arcs: [{step: c}]}\n"
        "  - step: c\n    tool: {kind: noop, message: ['{{ start.results.a.body.n }}', '{{ start.body.n }}']}\n"
    )
    run = run_text(text, lambda call: {"status_code": 200, "body": {"n": call.task}})
    assert run.calls[-1].config["message"] == ["a", "b"]


def test_a_rule_reads_what_its_call_gave_as_output_only() -> None:
    """As NT306 says."""
    names = "fetch.body.next or start.body.next"
    rules = (
        f"[{{when: '{{{{ {names} }}}}', then: {{do: fail}}}}, "
        "{when: '{{ output.data.body.next }}', then: {do: break, set: {ctx.seen: 1}}}]"
    )
    tool = f"{{name: fetch, kind: http, url: u, spec: {{policy: {{rules: {rules}}}}}}}"
    text = playbook(
        f"  - step: start\n    tool: {tool}\n    next: {{arcs: [{{step: end}}]}}\n"
        "  - step: end\n    tool: {kind: noop, message: '{{ ctx.seen }}'}\n"
    )
    run = run_text(text, Activity(lambda call: call.config if call.kind == "noop" else {"body": {"next": 1}}))
    assert run.finish.status == "completed"
    assert run.calls[-1].config["message"] == 1


def test_every_field_of_an_error_is_in_the_table() -> None:
    info = ErrorInfo("server_error", "busy", "HTTP_503", True, 503, 1.0)
    view = ErrorView({**msgspec.structs.asdict(info), "wait": "approve"})
    assert {*info.__struct_fields__, "wait"} <= tables.BELOW_OUTCOME["error"]
    assert all(view[name] is not None for name in tables.BELOW_OUTCOME["error"])
