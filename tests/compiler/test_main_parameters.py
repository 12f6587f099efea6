"""The names that a Python task binds because its function ``main`` requires them (semantics.md 39)."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_or_raise

HEAD = "apiVersion: noetl.io/v10\nkind: Playbook\nmetadata: {name: x}\nworkload: {a: 1, b: 2, c: 3, d: 4}\n"


@pytest.mark.parametrize(
    ("parameters", "bound"),
    [
        ("a, other", {"a"}),
        ("a, b=0, *, c, d=0", {"a", "c"}),
        ("a, /, b", {"a", "b"}),
        ("a, b=0, /, c=0, d=0", {"a"}),
        ("a=0, /, b=0", set[str]()),
    ],
)
def test_required_parameters_are_bound_to_names_of_the_workload(parameters: str, bound: set[str]) -> None:
    code = f"      code: |\n        def main({parameters}):\n            return 1\n"
    text = f"{HEAD}workflow:\n  - step: start\n    tool:\n      kind: python\n{code}"
    (task,) = compile_or_raise(text).steps["start"].tasks
    assert set(task.input.data) == bound
