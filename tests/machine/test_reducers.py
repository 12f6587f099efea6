"""``reduce`` of a loop: what its iterations set under a name becomes one value, however they end."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler import compile_text
from noetl_temporal.machine.call import ToolCall

from .driver import Run, run_text
from .playbooks import playbook


def loop(reducer: str, sets: str, *, begins: str = "", mode: str = "parallel") -> str:
    """A loop over 1, 2, 3 with a step after it that returns ``ctx.found``."""
    return playbook(
        f"""
  - step: start
    loop:
      in: [1, 2, 3]
      iterator: item
      spec: {{mode: {mode}, reduce: {{{reducer}}}}}
    tool: {{kind: noop, set: {{ctx.found: "{sets}"}}}}
    next: {{arcs: [{{step: after}}]}}
  - step: after
    tool: {{kind: noop, message: "{{{{ ctx.found }}}}"}}
""",
        f"ctx: {{{begins}}}\n",
    )


def message(call: ToolCall) -> Any:
    return call.config.get("message")


def run_reducer(text: str, last_first: bool = False) -> Run:
    return run_text(text, message, pick=lambda count: count - 1 if last_first else 0)


@pytest.mark.parametrize("last_first", [True, False])
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize(
    ("reducer", "sets", "begins", "expected"),
    [
        ("ctx.found: append", "{{ item * 10 }}", "", [10, 20, 30]),
        ("found: append", "{{ [item] }}", "found: [0]", [0, [1], [2], [3]]),
        ("ctx.found: extend", "{{ [item, item] }}", "", [1, 1, 2, 2, 3, 3]),
        ("ctx.found: sum", "{{ item }}", "", 6),
        ("ctx.found: sum", "{{ item + 0.5 }}", "found: 4", 11.5),
        ("ctx.found: merge", "{{ {'last': item} }}", "found: {a: 0}", {"a": 0, "last": 3}),
    ],
)
def test_iterations_add_to_one_value(
    reducer: str, sets: str, begins: str, expected: Any, mode: str, last_first: bool
) -> None:
    run = run_reducer(loop(reducer, sets, begins=begins, mode=mode), last_first)
    assert run.finish.status == "completed"
    assert run.finish.result == expected


@pytest.mark.parametrize(("sets", "begins"), [("{{ 'a' }}", ""), ("{{ item }}", "found: text")])
def test_values_that_cannot_be_reduced_fail_the_step(sets: str, begins: str) -> None:
    run = run_reducer(loop("ctx.found: sum", sets, begins=begins))
    assert run.finish.status == "failed"
    assert "cannot be added to found" in run.finish.failures.detailed[0].message


def test_a_reduced_name_is_safe_to_set_and_an_unset_one_is_reported() -> None:
    assert compile_text(loop("ctx.found: sum", "{{ item }}")).diagnostics == ()
    [diagnostics] = compile_text(loop("fund: sum, found: sum", "{{ item }}")).diagnostics
    assert (diagnostics.code.value, diagnostics.message) == (
        "NT105",
        'no task of the loop sets "fund", so nothing is reduced',
    )
