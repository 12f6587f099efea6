"""Python tasks that import the package of older NoETL: what they get of the run, and what they set."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.machine.call import ToolCall

from .driver import ok, run_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: older}\nworkload: {given: 1}\nworkflow:\n"
VARS = "from noetl.worker.vars_cache import VarsCache; result = 1"
FETCH = "from noetl.worker.secrets import fetch_credential_by_key; result = fetch_credential_by_key(NAME)"


def task(name: str, code: str = VARS, more: str = "") -> str:
    return f"      - {{name: {name}, kind: python, code: '{code}'{more}}}\n"


def setting(call: ToolCall) -> Any:
    if "vars" not in call.config:
        return ok(1)
    return ok(1, set={"counter": call.config["vars"].get("counter", 0) + 1, "last": call.task})


def test_a_task_gets_what_the_run_has_set_and_sets_more() -> None:
    text = f"""{HEAD}  - step: start
    set: {{ctx.counter: 5}}
    tool:
{task("a")}{task("b")}{task("plain", "result = 1")}    next: {{arcs: [{{step: more, set: {{ctx.own: 2}}}}]}}
  - step: more
    tool:
{task("c")}  - step: end
    tool: {{kind: noop, result: "{{{{ ctx.counter }}}} {{{{ ctx.last }}}}"}}
"""
    run = run_text(text, lambda call: call.config["result"] if call.kind == "noop" else setting(call))
    calls = [call.config.get("vars") for call in run.calls[:-1]]
    assert calls == [
        {},
        {"counter": 1, "last": "a"},
        None,
        {"counter": 5, "last": "b", "own": 2},
    ], "neither the workload nor results, and nothing for code that does not ask"
    assert run.finish.result == "6 c"
    assert run.of("ctx.updated")[0].meta["targets"] == ["ctx.counter", "ctx.last"]


def test_later_tasks_of_an_iteration_see_it_at_once_and_others_after_the_loop() -> None:
    text = f"""{HEAD}  - step: start
    loop: {{in: [1, 2], iterator: n, spec: {{mode: parallel}}}}
    tool:
{task("a")}{task("b")}  - step: end
    tool: {{kind: noop, result: "{{{{ ctx.counter }}}}"}}
"""
    run = run_text(text, lambda call: call.config["result"] if call.kind == "noop" else setting(call))
    calls = sorted((call.task, call.config["vars"].get("counter")) for call in run.calls if call.kind == "python")
    assert calls == [("a", None), ("a", None), ("b", 1), ("b", 1)]
    assert run.finish.result == 2


@pytest.mark.parametrize(
    ("name", "more", "auth"),
    [
        ('"ib"', "", "ib"),
        ("which", ", input: {which: '{{ workload.given }}'}", 1),
        ('"ib"', ", auth: other", "other"),
        ("which + 1", ", input: {which: a}", None),
    ],
)
def test_the_credential_that_code_asks_for_is_that_of_its_task(name: str, more: str, auth: Any) -> None:
    text = f"{HEAD}  - step: start\n    tool:\n{task('a', FETCH.replace('NAME', name), more)}"
    assert run_text(text, lambda _call: 1).calls[0].auth == auth
