"""Statements of a cursor: their templates become parameters, and what cannot is reported."""

from __future__ import annotations

import json

import pytest

from noetl_compiler import Result, compile_text

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t}\nworkload: {owner: me}\nworkflow:\n"
STEP = "  - step: start\n    loop:\n      cursor:\n        kind: KIND\n        claim: CLAIM\nMORE      iterator: row\n"
TOOL = '    tool: {kind: noop, input: {n: "{{ iter.row.id }} {{ lease.token }}"}}\n'


def compile_claim(claim: str, more: str = "", kind: str = "postgres") -> Result:
    step = STEP.replace("KIND", kind).replace("CLAIM", json.dumps(claim)).replace("MORE", more)
    return compile_text(HEAD + step + TOOL, "t.yaml")


@pytest.mark.parametrize(
    ("claim", "query", "values"),
    [
        ("SELECT {{ a }}, {{ b }}", "SELECT $1, $2", ["{{ a }}", "{{ b }}"]),
        ("x = '{{ owner }}'", "x = $1", ["{{ owner }}"]),
        ("x = 'it''s {{ owner }}'", "x = $1", ["it's {{ owner }}"]),
        ("x = '{{ \"it''s\" }}' AND y = 'a''b'", "x = $1 AND y = 'a''b'", ["{{ \"it''s\" }}"]),
        ("now() - interval '{{ n }} seconds'", "now() - $1::text::interval", ["{{ n }} seconds"]),
        ("x = '{{ a }}'::jsonb", "x = $1::text::jsonb", ["{{ a }}"]),
        ("SELECT 1 -- {{ a }}\n, {{ b }}", "SELECT 1  \n, $1", ["{{ b }}"]),
        ("SELECT ';' /* ; */, {{ a }};", "SELECT ';' /* ; */, $1", ["{{ a }}"]),
        ("SELECT {{ a }}; -- done", "SELECT $1 -- done", ["{{ a }}"]),
    ],
)
def test_a_value_is_bound_and_never_spliced(claim: str, query: str, values: list[str]) -> None:
    claim = claim.replace("{{ a }}", "{{ workload.a | default(1) }}").replace("{{ b }}", "{{ workload.owner }}")
    claim = claim.replace("{{ n }}", "{{ lease.seconds }}")
    values = [
        value.replace("{{ a }}", "{{ workload.a | default(1) }}")
        .replace("{{ b }}", "{{ workload.owner }}")
        .replace("{{ n }}", "{{ lease.seconds }}")
        for value in values
    ]
    graph = compile_claim(claim).graph
    assert graph is not None
    loop = graph.steps["start"].loop
    assert loop is not None
    assert loop.cursor is not None
    assert loop.cursor.claim is not None
    assert loop.cursor.claim.config.data == {"query": query, "params": values}


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        ("SELECT {% if owner %}1{% endif %}", "a statement of a cursor cannot contain {% %}"),
        ('SELECT * FROM "{{ owner }}"', "a template cannot be inside a quoted name, an E'' literal or $$"),
        ("SELECT E'{{ owner }}'", "a template cannot be inside a quoted name, an E'' literal or $$"),
        ("SELECT $x$ {{ owner }} $x$", "a template cannot be inside a quoted name, an E'' literal or $$"),
        ("SELECT 1; SELECT 2", "each field of a cursor takes one statement"),
    ],
)
def test_templates_that_cannot_be_bound_are_errors(claim: str, message: str) -> None:
    result = compile_claim(claim)
    assert result.graph is None
    assert [diagnostic.message for diagnostic in result.diagnostics if diagnostic.severity.value == "error"] == [
        message
    ]


def test_parameters_of_the_author_come_first() -> None:
    more = '        params: ["{{ owner }}", 2]\n'
    graph = compile_claim("SELECT $1, $2, {{ lease.token }}", more).graph
    assert graph is not None
    loop = graph.steps["start"].loop
    assert loop is not None
    assert loop.cursor is not None
    assert loop.cursor.claim is not None
    assert loop.cursor.claim.config.data == {
        "query": "SELECT $1, $2, $3",
        "params": ["{{ owner }}", 2, "{{ lease.token }}"],
    }


def test_a_release_needs_a_statement() -> None:
    result = compile_claim("SELECT 1", "        on_row_error: release\n")
    assert any(
        'missing "release"' in diagnostic.message or "release" in diagnostic.message
        for diagnostic in result.diagnostics
    )
    assert result.graph is None


def test_the_claim_chooses_and_orders_the_rows() -> None:
    text = HEAD + STEP.replace("KIND", "postgres").replace("CLAIM", "SELECT 1").replace("MORE", "      order_by: id\n")
    result = compile_text(text + TOOL, "t.yaml")
    assert [diagnostic.code.value for diagnostic in result.diagnostics] == ["NT105"]
    assert result.graph is not None


def test_other_databases_compile_with_a_warning() -> None:
    result = compile_claim("SELECT 1", kind="duckdb")
    assert result.graph is not None
    assert [diagnostic.code.value for diagnostic in result.diagnostics] == ["NT502"]


def test_names_of_a_cursor_are_known_in_its_statements() -> None:
    more = (
        '        renew: "UPDATE q SET t = {{ lease.seconds }} WHERE id = {{ row.id }}"\n'
        '        ack: "UPDATE q SET s = {{ output.status }} WHERE id = {{ row.id }} AND t = {{ lease.token }}"\n'
    )
    assert compile_claim("SELECT {{ __frame_max_rows }}", more).diagnostics == ()
    assert any("rwo" in diagnostic.message for diagnostic in compile_claim("SELECT {{ rwo.id }}").diagnostics)
