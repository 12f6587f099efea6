"""Python code that reads unbound names gets those that its task sees; other behaviour that old playbooks rely on."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler.graph import Json
from noetl_temporal.machine.scope import outcome_names

from .driver import ok, run_text

LOOP = """apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asked}
workload: {items: [{name: a}, {name: b}], size: 5, item: other}
workflow:
  - step: start
    loop: {in: "{{ workload['items'] }}", iterator: item, mode: sequential}
    tool:
      kind: python
      code: |
        CODE
    next: [{step: end}]
  - step: end
    tool: {kind: noop}
"""


def inputs(text: str, answer: Any = ok) -> list[dict[str, Json]]:
    run = run_text(text, lambda call: answer({"name": "x"}))
    assert run.finish.status == "completed", run.finish.failures
    return [call.input for call in run.calls if call.kind == "python"]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def main(item): return item", {"item": {"name": "a"}}),
        ("def main(item, *, size): return item", {"item": {"name": "a"}, "size": 5}),
        ("async def main(size): return size", {"size": 5}),
        ("def main(item=None, unknown=1): return item", {}),
        ("def main(context): return context.get('item', {})", {"item": {"name": "a"}}),
        ("result = context['item']", {"item": {"name": "a"}}),
        ("result = context.get('size')", {}),
        ("def main(input_data): return input_data", {}),
        ("def helper(item): return item\n        result = 1", {}),
    ],
)
def test_inputs_that_code_reads_are_bound(code: str, expected: dict[str, Json]) -> None:
    assert inputs(LOOP.replace("CODE", code))[0] == expected


def test_bound_inputs_are_not_replaced() -> None:
    text = LOOP.replace("CODE", "def main(item): return item").replace(
        "kind: python", "kind: python\n      args: {item: 7}"
    )
    assert [input_["item"] for input_ in inputs(text)] == [7, 7]


def test_this_has_the_parts_of_the_result() -> None:
    this = outcome_names("http", {"status": "ok", "result": {"name": "x", "data": 1}})["this"]
    assert (this["name"], this["data"]["name"], this["result"]["name"]) == ("x", "x", "x")


SAVE = """apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: save, path: save}
workload: {message: hello}
workflow:
  - step: start
    type: save
    storage: postgres
    auth: pg
    table: public.demo
    data: {message: "{{ workload.message }}"}
    next: [{step: end}]
  - step: end
    result: {saved: "{{ start.result.saved }}", table: "{{ start.result.table }}"}
"""


def test_a_saving_step_returns_what_it_saved() -> None:
    run = run_text(SAVE, lambda call: ok(call.config.get("result")))
    assert run.finish.result == {"saved": {"message": "hello"}, "table": "public.demo"}


CHOICE = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: choice}
workflow:
  - step: start
    tool: {kind: noop}
    next: {arcs: [{step: low}]}
  - step: high
    tool: {kind: noop}
    next: {arcs: [{step: report}]}
  - step: low
    tool: {kind: noop}
    next: {arcs: [{step: report}]}
  - step: report
    tool: {kind: python, input: {name: "VALUE"}, code: "result = name"}
"""


@pytest.mark.parametrize(
    "value", ["high.name if high else low.name", "high.name or low.name", "low.name if not high.name else 1"]
)
def test_an_inline_if_and_or_can_test_whether_a_step_has_run(value: str) -> None:
    assert inputs(CHOICE.replace("VALUE", f"{{{{ {value} }}}}")) == [{"name": "x"}]


@pytest.mark.parametrize("value", ["high.name", "not high", "low.name and high.name"])
def test_any_other_use_of_it_is_an_error(value: str) -> None:
    run = run_text(CHOICE.replace("VALUE", f"{{{{ {value} }}}}"), lambda _call: ok({"name": "x"}))
    assert run.finish.status == "failed"
