"""Waits in the compiler: routes, descriptions, and schemas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl_compiler import compile_file, compile_text, preview
from noetl_compiler.language.payload_schema import (
    form_error,
    form_schema,
    payload_error,
    payload_template,
    schema_error,
)
from noetl_compiler.language.timestamps import format_timestamp, parse_timestamp

WAITS = Path(__file__).parent / "corpus" / "ok" / "v10_waits.yaml"


def test_the_tree_shows_waits() -> None:
    graph = compile_file(WAITS).graph
    assert graph is not None
    text = preview.tree(graph)
    assert "task queues: http\n" in text
    assert "start_task [wait] until workload.opens" in text
    assert "paid_task [wait] for the signal paid" in text
    assert "review_task [approval] Ship for {{ paid.amount }}?" in text
    assert "up to 5 calls, each after the signal fixed within 600 s" in text


@pytest.mark.parametrize("kind", ["wait", "approval", "http"])
def test_a_tool_that_is_written_as_a_key_of_its_step(kind: str) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: p}\nworkflow:\n"
    diagnostics = compile_text(f"{head}  - step: start\n    {kind}: {{a: 1}}\n").diagnostics
    assert f"write tool: {{kind: {kind}, ...}}" in [diagnostic.hint for diagnostic in diagnostics]


def test_a_timeout_is_the_first_route_of_its_step() -> None:
    graph = compile_file(WAITS).graph
    assert graph is not None
    first, *others = graph.steps["paid"].route.arcs
    assert (first.target, first.on_status) == ("remind", "error")
    assert [arc.target for arc in others] == ["review", "ship"]
    assert graph.steps["paid"].tasks[0].sinks[0].level == "task"


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ({}, {"anything": 1}, None),
        ({"type": "integer"}, 3.0, None),
        ({"type": "integer"}, True, "data must be a whole number"),
        ({"type": "number"}, False, "data must be a number"),
        ({"type": ["string", "null"]}, None, None),
        ({"type": ["string", "null"]}, 3, "data must be a string or null"),
        ({"enum": [1, "a"]}, "a", None),
        ({"enum": [1]}, True, "data must be one of 1"),
        ({"minimum": 3}, 3, None),
        ({"minimum": 3}, 2.5, "data must be 3 or more"),
        ({"maximum": 3}, "text", None),
        ({"maxLength": 2}, "abc", "data must be a string of 2 characters or fewer"),
        ({"minItems": 1}, [], "data must be 1 items or more"),
        ({"items": {"type": "string"}}, ["a", 1], "data[1] must be a string"),
        ({"properties": {"a": {"type": "string"}}}, {"a": 1}, "data.a must be a string"),
        ({"properties": {"a": {}}, "additionalProperties": False}, {"b": 1}, "data has 'b', expected a"),
        ({"required": ["a"]}, {}, "data lacks 'a'"),
    ],
)
def test_a_payload_that_does_not_match_its_schema_is_refused(
    schema: dict[str, Any], value: Any, why: str | None
) -> None:
    assert schema_error(schema) is None
    assert payload_error(value, schema) == why


@pytest.mark.parametrize(
    "schema",
    ["text", [], {"pattern": "a"}, {"type": "money"}, {"type": [3]}, {"minimum": True}, {"items": []}, {"$ref": "#"},
     {"properties": {"a": 3}}, {"required": "a"}],
)  # fmt: skip
def test_values_that_are_not_schemas(schema: Any) -> None:
    assert schema_error(schema) is not None


@pytest.mark.parametrize(
    ("form", "is_one"),
    [
        ({"a": "number", "b": {"type": "string", "required": True, "choices": ["x"]}}, True),
        ({"a": "integer", "b": "boolean", "c": "object", "d": "array"}, True),
        ({"a": "text"}, False),
        ({}, True),
        ([], False),
        ({"a": "euros"}, False),
        ({"a": 3}, False),
        ({"a": {"type": ["string"]}}, False),
        ({"a": {"type": "string", "default": 1}}, False),
        ({"a": {"type": "string", "required": "yes"}}, False),
        ({"a": {"type": "string", "choices": "x"}}, False),
    ],
)
def test_forms_of_waits(form: Any, is_one: bool) -> None:
    assert (form_error(form) is None) == is_one
    if is_one:
        assert schema_error(form_schema(form)) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (1.5, 1500),
        ("1970-01-01T00:00:02", 2000),
        ("1970-01-01T01:00:02+01:00", 2000),
        ("1970-01-02", 86_400_000),
        ("soon", None),
        (True, None),
        (float("nan"), None),
        (10**30, None),
        (None, None),
        ([], None),
    ],
)
def test_forms_of_times(value: object, expected: int | None) -> None:
    assert parse_timestamp(value) == expected
    if expected is not None:
        assert parse_timestamp(format_timestamp(expected)) == expected


@pytest.mark.parametrize(
    ("schema", "template"),
    [
        ({}, None),
        ({"type": "object"}, {}),
        ({"type": "integer"}, "<integer>"),
        ({"type": ["null", "string"]}, "<string>"),
        ({"enum": ["card", "cash"]}, "<card|cash>"),
        ({"properties": {"note": {"type": "string"}}}, None),
        (
            {"required": ["amount", "any"], "properties": {"amount": {"type": "number"}}},
            {"amount": "<number>", "any": "<value>"},
        ),
        (
            {"required": ["to"], "properties": {"to": {"required": ["city"], "properties": {}}}},
            {"to": {"city": "<value>"}},
        ),
        ({"required": ["tags"], "properties": {"tags": {"type": "array"}}}, {"tags": []}),
        ({"type": "array", "items": {"type": "string"}}, ["<string>"]),
    ],
)
def test_the_template_of_a_payload_has_what_the_schema_requires(schema: dict[str, Any], template: Any) -> None:
    assert payload_template(schema) == template
