"""Parts of a result under names of their own."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler import compile_text
from noetl_temporal.machine.call import ToolCall

from .driver import run_text
from .playbooks import playbook

BODY = {"choices": [{"text": "hello"}], "meta": {"count": 3}, "a-b": 1}
RESPONSE = {"status_code": 200, "headers": {}, "url": "", "elapsed": 0, "data": BODY}


def asking(fields: str, template: str) -> str:
    """A step whose first task says ``what`` of its result, and whose second task and next step return what they see."""
    return playbook(
        f"""
  - step: start
    tool:
      - {{name: ask, kind: http, url: "http://x", {fields}}}
      - {{name: see, kind: noop, message: "{template}"}}
    next: {{arcs: [{{step: after}}]}}
  - step: after
    tool: {{kind: noop, message: "{{{{ start.message }}}}"}}
"""
    )


def answer(call: ToolCall) -> Any:
    return RESPONSE if call.kind == "http" else {"message": call.config.get("message")}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.choices[0].text", "hello"),
        ("choices.0.text", "hello"),
        ("$['a-b']", 1),
        ("$.data.meta.count", 3),
        ("$.status_code", 200),
    ],
)
@pytest.mark.parametrize("location", ["output", "spec.result"])
def test_a_part_is_seen_under_its_name(location: str, path: str, expected: Any) -> None:
    output = f'{{select: [{{path: "{path}", as: part}}]}}'
    fields = f"output: {output}" if location == "output" else f"spec: {{result: {output}}}"
    assert run_text(asking(fields, "{{ ask.part }}"), answer).finish.result == {"message": expected}
    assert run_text(asking(fields, "{{ output.part }}"), answer).finish.result == {"message": expected}


def test_a_part_without_a_name_has_its_own() -> None:
    fields = "output: {output_select: [meta.count, choices]}"
    assert run_text(asking(fields, "{{ ask.count }}"), answer).finish.result == {"message": 3}


def test_a_missing_part_has_no_name() -> None:
    fields = 'output: {select: [{path: "$.nothing[3]", as: part}]}'
    run = run_text(asking(fields, "{{ ask.part | default('none') }}"), answer)
    assert run.finish.result == {"message": "none"}


def test_the_result_of_a_step_has_the_parts_of_its_last_task() -> None:
    text = playbook(
        """
  - step: start
    tool: {kind: http, url: "http://x", output: {select: [{path: "$.meta.count", as: number}]}}
    next: {arcs: [{step: after}]}
  - step: after
    tool: {kind: noop, message: "{{ start.number }}"}
"""
    )
    assert run_text(text, answer).finish.result == {"message": 3}


@pytest.mark.parametrize("path", ["$..text", "$.a[*]", "a b", ""])
def test_values_that_are_not_paths_are_refused(path: str) -> None:
    diagnostics = compile_text(asking(f'output: {{select: [{{path: "{path}", as: part}}]}}', "x")).diagnostics
    assert [diagnostic.code.value for diagnostic in diagnostics] == ["NT106"]
