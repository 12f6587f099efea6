"""Before v10, a Python task gets the value that an argument passes as JSON."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_or_raise

V1 = """apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: x, path: x}
workload: {a: {b: 1}}
workflow:
  - step: start
    type: python
    args: {given: VALUE}
    code: |
      def main(given):
          return given
    next: [{step: end}]
  - step: end
"""
LEGACY = V1.replace("v1", "v2").replace("type: python", "tool: python")
V10 = """apiVersion: noetl.io/v10
kind: Playbook
metadata: {name: x}
workload: {a: {b: 1}}
workflow:
  - step: start
    tool: {kind: python, input: {given: VALUE}, code: "result = given"}
"""

JSON = '"{{ workload.a | tojson }}"'


def argument_of(text: str, value: str) -> object:
    (task,) = compile_or_raise(text.replace("VALUE", value)).steps["start"].tasks
    return (task.inherited_input.data | task.input.data)["given"]


@pytest.mark.parametrize("text", [V1, LEGACY])
@pytest.mark.parametrize(
    ("value", "bound_value"),
    [
        (JSON, "{{ workload.a }}"),
        ('"{{ workload.a|to_json -}}"', "{{ workload.a -}}"),
        ('"a: {{ workload.a | tojson }}"', "a: {{ workload.a | tojson }}"),
        ('"{{ workload.a | tojson }}{{ 1 | tojson }}"', "{{ workload.a | tojson }}{{ 1 | tojson }}"),
        ('"{{ workload.a | tojson | length }}"', "{{ workload.a | tojson | length }}"),
        ("5", 5),
    ],
)
def test_json_text_is_bound_as_its_value(text: str, value: str, bound_value: object) -> None:
    assert argument_of(text, value) == bound_value


def test_in_v10_the_value_stays_a_string() -> None:
    assert argument_of(V10, JSON) == "{{ workload.a | tojson }}"
