"""Conditions of a legacy retry read ``max_attempts``, the limit of that retry."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_text
from noetl_compiler.migration import migrate
from noetl_compiler.source import SourceFile

TEXT = """apiVersion: noetl.io/v1
kind: Playbook
metadata: {name: x, path: x}
workload: {tries: 5}
workflow:
  - step: start
    tool: http
    url: http://example.com
    retry: {max_attempts: LIMIT, retry_when: "{{ WHEN }}", stop_when: "{{ attempt >= max_attempts }}"}
    next: end
  - step: end
"""


@pytest.mark.parametrize(
    ("limit", "when", "expected"),
    [
        ("4", "error != None and attempt < max_attempts", "error != None and attempt < 4"),
        ('"{{ workload.tries }}"', "attempt < max_attempts - 1", "attempt < (workload.tries) - 1"),
        ("4", "workload.max_attempts > 1 or error.x == 'max_attempts'", None),
    ],
)
def test_the_limit_is_read(limit: str, when: str, expected: str | None) -> None:
    text = TEXT.replace("LIMIT", limit).replace("WHEN", when)
    result = compile_text(text)
    assert result.graph is not None
    assert not [diagnostic for diagnostic in result.diagnostics if '"max_attempts" is not' in diagnostic.message]
    policy = result.graph.steps["start"].tasks[0].policy
    assert policy is not None
    *stops, retry = policy.rules
    assert retry.when is not None
    assert retry.when.source == f"{{{{ {expected or when} }}}}"
    assert stops
    assert all(rule.when and "max_attempts" not in rule.when.source for rule in stops)
    assert not migrate(SourceFile("x", text)).defect
