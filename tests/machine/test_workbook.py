"""What earlier dialects write in their own way: calls of the workbook, ``on_error``, the final step, SQL of a task."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.machine.call import ToolCall

from .activity import Activity
from .driver import Run, error, run_text

V2 = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: x, path: x}\nworkload: {a: 5}\n"
LEGACY = V2.replace("io/v2", "io/v1")
V1 = LEGACY.replace("metadata: {name: x, path: x}", "name: x\npath: x")

CODE = "python, code: 'result = 1'"
BOOK = f"workbook: [{{name: t, tool: {{kind: {CODE}, input: {{x: '{{{{ a }}}}'}}}}}}]\n"
OLD_BOOK = f"workbook: [{{name: t, type: {CODE}, with: {{x: '{{{{ a }}}}'}}}}]\n"
CALL = "kind: workbook, name: t"
WHEN = "[{when: true, then: [{step: t, with: {n: 1}}]}]"
END = "next: end}, {step: end}]"
EXIT = "case: [{when: \"{{ event.name == 'step.exit' }}\", then: {next: [{step: end}]}}]}, {step: end}]"


def answer_call(call: ToolCall) -> Any:
    return error("boom") if call.input.get("fail") else {"kind": call.kind, "input": call.input}


def run(text: str) -> Run:
    return run_text(f"{text}\n", Activity(answer_call))


@pytest.mark.parametrize(
    "text",
    [
        f"{V2}{BOOK}workflow: [{{step: start, tool: {{{CALL}, input: {{n: 1}}}}}}]",
        f"{V2}{BOOK}workflow: [{{step: start, tool: [{{one: {{{CALL}, input: {{n: 1}}}}}}]}}]",
        f"{V2}{BOOK}workflow: [{{step: start, tool: {{{CALL}, args: {{n: 1}}}}, {EXIT}",
        f"{V2}{BOOK}workflow: [{{step: start, args: {{n: 1}}, tool: {{{CALL}}}, {EXIT}",
        f"{V2}{OLD_BOOK}workflow: [{{step: start, tool: {{kind: workbook, task: t, args: {{n: 1}}}}, {EXIT}",
        f"{LEGACY}{BOOK}workflow: [{{step: start, tool: workbook, name: t, args: {{n: 1}}, {END}",
        f"{LEGACY}{OLD_BOOK}workflow: [{{step: start, tool: workbook, task: t, args: {{n: 1}}, {END}",
        f"{V1}{OLD_BOOK}workflow: [{{step: start, call: {{type: workbook, name: t, with: {{n: 1}}}}, {END}",
        f"{V1}{OLD_BOOK}workflow: [{{step: start, type: workbook, task: t, with: {{n: 1}}, {END}",
        f"{V1}{OLD_BOOK}workflow: [{{step: start, type: workbook, name: t, data: {{n: 1}}, {END}",
        f"{V1}{BOOK}workflow: [{{step: start, type: workbook, name: t, data: {{n: 1}}, {END}",
        f"{V1}{OLD_BOOK}workflow: [{{step: start, next: {{step: t, with: {{n: 1}}}}}}]",
        f"{V1}{OLD_BOOK}workflow: [{{step: start, type: noop, next: {WHEN}}}]",
    ],
)
def test_a_call_in_every_dialect(text: str) -> None:
    finished_run = run(text)
    assert finished_run.finish.status == "completed", finished_run.finish
    [call] = [call for call in finished_run.calls if call.kind == "python"]
    assert call.input == {"n": 1, "x": 5}


@pytest.mark.parametrize(
    "text",
    [
        (
            f"{V2}{BOOK}workflow: [{{step: start, loop: {{in: [1, 2], iterator: i}}, "
            f"tool: {{{CALL}, input: {{n: '{{{{ i }}}}'}}}}}}]"
        ),
        (
            f"{LEGACY}{BOOK}workflow: [{{step: start, tool: workbook, name: t, args: {{n: '{{{{ i }}}}'}}, "
            f"loop: {{collection: [1, 2], element: i}}, {END}"
        ),
        (
            f"{V1}{OLD_BOOK}workflow: [{{step: start, type: iterator, collection: [1, 2], element: i, "
            f"task: {{type: workbook, name: t, data: {{n: '{{{{ i }}}}'}}}}, {END}"
        ),
    ],
)
def test_a_call_in_a_loop(text: str) -> None:
    finished_run = run(text)
    assert finished_run.finish.status == "completed", finished_run.finish
    assert sorted(call.input["n"] for call in finished_run.calls if call.kind == "python") == [1, 2]


def test_a_route_to_a_task_becomes_one_step_however_many_routes_lead_there() -> None:
    finished_run = run(
        f"{V1}{OLD_BOOK}workflow:\n"
        "  - step: start\n    next: [{step: left}, {step: right}]\n"
        "  - {step: left, next: t}\n  - {step: right, next: t}\n"
    )
    assert finished_run.finish.status == "completed", finished_run.finish
    assert [(call.step, call.task) for call in finished_run.calls] == [("t", "t")]


def test_a_step_is_meant_before_a_task_of_the_same_name() -> None:
    finished_run = run(f"{V1}{OLD_BOOK}workflow: [{{step: start, next: t}}, {{step: t, type: noop}}]")
    assert [call.kind for call in finished_run.calls] == ["noop"]


@pytest.mark.parametrize(
    "text",
    [
        (
            f"{V1}workflow: [{{step: start, tool: [{{p: {{kind: {CODE}, with: {{fail: 1}}, on_error: continue}}}}, "
            f"{{q: {{kind: {CODE}}}}}], next: b}}, {{step: b, type: noop}}]"
        ),
        (
            f"{V1}workflow: [{{step: start, type: iterator, collection: [1], element: i, tasks: [{{type: {CODE}, "
            f"with: {{fail: 1}}, on_error: continue}}, {{name: q, type: {CODE}}}], {END}"
        ),
        (
            f"{V1}workbook: [{{name: t, tool: {{kind: {CODE}, on_error: continue}}}}]\n"
            f"workflow: [{{step: start, type: workbook, name: t, with: {{fail: 1}}, next: b}}, "
            f"{{step: b, type: {CODE}}}]"
        ),
        (
            f"{V1}workflow: [{{step: start, call: {{type: {CODE}, with: {{fail: 1}}, on_error: continue}}, next: b}}, "
            f"{{step: b, type: {CODE}}}]"
        ),
    ],
)
def test_on_error_of_one_v1_task_is_for_that_task(text: str) -> None:
    finished_run = run(text)
    assert finished_run.finish.status == "completed", finished_run.finish
    assert len([call for call in finished_run.calls if call.kind == "python"]) == 2
    without_continue = run(text.replace(", on_error: continue", ""))
    assert without_continue.finish.status == "failed"


@pytest.mark.parametrize(
    ("head", "steps"),
    [
        (V2, "{step: start, tool: {kind: noop}}, {step: last, tool: {kind: noop}}"),
        (V2, ("{step: start, tool: {kind: noop}, case: [{when: \"{{ event.name == 'call.error' }}\", "
             "then: {next: [{step: last}]}}]}, {step: last, tool: {kind: noop}}")),
        (LEGACY, "{step: start, tool: noop, message: x}, {step: last, tool: noop}"),
        (V1, "{step: start, type: noop}, {step: last, type: noop}"),
    ],
)  # fmt: skip
def test_the_final_step_in_every_dialect(head: str, steps: str) -> None:
    finished_run = run(f"{head}executor: {{spec: {{final_step: last}}}}\nworkflow: [{steps}]")
    assert finished_run.finish.status == "completed", finished_run.finish
    assert [call.step for call in finished_run.calls] == ["start", "last"]


@pytest.mark.parametrize(
    ("head", "tool"),
    [(V2, "tool: {kind: postgres, auth: a, code: 'select 1'}"), (LEGACY, "tool: postgres, auth: a, code: 'select 1'"),
     (V1, "type: postgres, auth: a, code: 'select 1'")],
)  # fmt: skip
def test_code_of_a_postgres_task_is_sql(head: str, tool: str) -> None:
    [call, *_] = run(f"{head}workflow: [{{step: start, {tool}, next: [{{step: end}}]}}, {{step: end}}]").calls
    assert call.config == {"command": "select 1"}
