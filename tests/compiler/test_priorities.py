"""Priority and fairness in the metadata of a playbook."""

from __future__ import annotations

import pytest

from noetl_compiler import compile_or_raise, compile_text
from noetl_compiler.codes import Code
from noetl_compiler.graph import Priority, decode, encode

TEXT = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: p, path: p{0}}}
workflow: [{{step: a, tool: {{kind: noop}}}}]
"""


def text(metadata: str = "") -> str:
    return TEXT.format(f", {metadata}" if metadata else "")


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("priority: 1", Priority(1)),
        ("fairness_key: acme", Priority(None, "acme")),
        ("priority: 5, fairness_key: acme, fairness_weight: 2.5", Priority(5, "acme", 2.5)),
    ],
)
def test_the_graph_has_what_the_metadata_say(metadata: str, expected: Priority) -> None:
    graph = compile_or_raise(text(metadata))
    assert graph.priority == expected
    assert decode(encode(graph)) == graph


def test_a_graph_without_priorities_has_no_field_for_them() -> None:
    assert b"priority" not in encode(compile_or_raise(text()))


@pytest.mark.parametrize(
    ("metadata", "code", "message"),
    [
        ("priority: 0", Code.WRONG_VALUE, '"priority" must be an integer from 1 to 5'),
        ("priority: high", Code.WRONG_TYPE, '"priority" must be an integer from 1 to 5, not a string'),
        ("priority: 1.5", Code.WRONG_TYPE, '"priority" must be an integer from 1 to 5, not a number'),
        ("priority: true", Code.WRONG_TYPE, '"priority" must be an integer from 1 to 5, not true or false'),
        ("fairness_weight: 0", Code.WRONG_VALUE, '"fairness_weight" must be a number from 0.001 to 1000'),
        (f"fairness_key: {'k' * 65}", Code.WRONG_VALUE, '"fairness_key" has at most 64 bytes'),
    ],
)
def test_a_wrong_priority_is_an_error(metadata: str, code: Code, message: str) -> None:
    [diagnostic] = compile_text(text(metadata), "p.yaml").diagnostics
    assert (diagnostic.code, diagnostic.message) == (code, message)
