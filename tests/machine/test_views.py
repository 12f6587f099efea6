"""What names give to templates: one stored shape, read as every era read it."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_compiler import templates
from noetl_temporal.machine.scope import event_names, outcome_names
from noetl_temporal.machine.views import result_view

HTTP: dict[str, Any] = {
    "status_code": 200,
    "headers": {},
    "url": "u",
    "elapsed": 0.1,
    "data": {"data": [1, 2], "paging": {"more": True}},
}
ROWS: dict[str, Any] = {
    "status": "success",
    "rows": [{"id": 7}],
    "columns": ["id"],
    "row_count": 1,
    "statement_count": 1,
}
TWO: dict[str, Any] = {
    **ROWS,
    "statement_count": 2,
    "statements": [{"rows": [], "columns": [], "row_count": 3}, {"rows": [{"id": 7}]}],
}
ENVELOPE: dict[str, Any] = {"status": "success", "data": {"rows": 3, "status": "inner", "result": "inner"}}


def names(kind: str, result: Any) -> dict[str, Any]:
    return {**outcome_names(kind, {"status": "ok", "result": result}), "step": result_view(kind, result)}


@pytest.mark.parametrize(
    ("kind", "result", "template", "expected"),
    [
        ("http", HTTP, "{{ step.data.paging.more }}", True),
        ("http", HTTP, "{{ step.body.paging.more }}", True),
        ("http", HTTP, "{{ step.status_code }}", 200),
        ("http", HTTP, "{{ step.data.data }}", [1, 2]),
        ("http", HTTP, "{{ output.data.data }}", HTTP["data"]),
        ("http", HTTP, "{{ output.data.paging.more }}", True),
        ("http", HTTP, "{{ response.paging.more }}", True),
        ("http", HTTP, "{{ output }}", {**HTTP, "body": HTTP["data"]}),
        ("http", HTTP, "{{ output.status }}", "ok"),
        ("http", HTTP, "{{ output.error.retryable }}", None),
        ("http", HTTP, "{{ error is defined }}", False),
        ("http", {**HTTP, "data": "text"}, "{{ response }}", "text"),
        ("postgres", ROWS, "{{ step.rows[0].id }}", 7),
        ("postgres", ROWS, "{{ step.command_0.rows[0].id }}", 7),
        ("postgres", ROWS, "{{ step.command_0[0].id }}", 7),
        ("postgres", ROWS, "{{ step.command_0 }}", {name: ROWS[name] for name in ("rows", "columns", "row_count")}),
        ("postgres", ROWS, "{{ step.data.command_0.row_count }}", 1),
        ("postgres", ROWS, "{{ result[0].id }}", 7),
        ("postgres", TWO, "{{ step.command_0.row_count }}", 3),
        ("postgres", TWO, "{{ step.command_1.rows[0].id }}", 7),
        ("python", {"a": 1}, "{{ step.a }} {{ step.data.a }} {{ step.result.a }}", "1 1 1"),
        ("python", {"data": 5}, "{{ step.data }}", 5),
        ("python", [1, 2], "{{ step | length }}", 2),
        ("python", {"items": [3]}, "{{ step.items }}", [3]),
        ("python", {"a": 1}, "{{ output.a }} {{ this.data.a }}", "1 1"),
        ("python", {"a": 1}, "{{ output.response.a }}", 1),
        ("python", {"response": 5}, "{{ output.response }}", 5),
        ("python", 5, "{{ output.response }}", 5),
        ("http", HTTP, "{{ output.response.paging.more }} {{ output.response.status_code }}", "True 200"),
        ("python", None, "{{ output }}", {"status": "ok", "data": None, "error": None}),
        ("python", ENVELOPE, "{{ step.rows }} {{ step.data.rows }} {{ step.status }}", "3 3 success"),
        ("python", ENVELOPE, "{{ output.data.rows }} {{ output.rows }} {{ result.rows }}", "3 3 3"),
        ("python", ENVELOPE, "{{ step.result }}", "inner"),
        ("python", ENVELOPE, "{{ step }}", ENVELOPE),
        ("python", {"data": {"rows": 3}}, "{{ step.rows is defined }}", False),
        ("python", {"status": "success", "data": [1]}, "{{ step.data }}", [1]),
    ],
)
def test_results_have_the_shape_of_their_dialect(kind: str, result: Any, template: str, expected: Any) -> None:
    assert templates.render_text(template, names(kind, result)) == expected


def test_an_error_is_seen_by_every_name() -> None:
    failed = {"kind": "http", "message": "no", "status": 503, "retryable": True}
    scope = outcome_names("http", {"status": "error", "error": failed, "http": {"status": 503}})
    text = "{{ error.status }} {{ error.status_code }} {{ output.error.retryable }} {{ error.type }} {{ status_code }}"
    assert templates.render_text(text, scope) == "503 503 True http 503"
    assert templates.predicate("{{ error is defined and not success }}", scope).matched


def test_an_error_has_the_response_of_the_server() -> None:
    failed = {"kind": "client_error", "message": "no", "status": 422, "retryable": False}
    body = {**HTTP, "status_code": 422, "data": {"why": "too young"}}
    outcome = {"status": "error", "error": failed, "result": body, "http": {"status": 422, "headers": {"x-id": "7"}}}
    scope = outcome_names("http", outcome)
    text = "{{ output.data.why }} {{ output.response.why }} {{ output.http.status }} {{ output.http.headers['x-id'] }}"
    assert templates.render_text(text, scope) == "too young too young 422 7"
    whole = templates.render_text("{{ output }}", scope)
    assert (whole["status"], whole["data"]["body"], whole["error"]["kind"]) == ("error", body["data"], "client_error")
    assert whole["http"] == outcome["http"]


@pytest.mark.parametrize(
    ("name", "expected", "equal"),
    [
        ("step.done", "call.done", True),
        ("step.done", "step.exit", True),
        ("step.done", "call.error", False),
        ("step.failed", "call.error", True),
        ("step.failed", "call.done", False),
        ("loop.done", "loop.done", True),
        ("loop.done", "step.done", True),
        ("loop.failed", "call.error", True),
        ("loop.failed", "loop.done", False),
    ],
)
def test_event_names_equal_their_synonyms(name: str, expected: str, equal: bool) -> None:
    scope = event_names(name, "s", None)
    assert templates.predicate(f"{{{{ event.name == '{expected}' }}}}", scope).matched is equal
    assert templates.predicate(f"{{{{ '{expected}' == event.name }}}}", scope).matched is equal
    assert templates.predicate(f"{{{{ event.name in ['{expected}'] }}}}", scope).matched is equal
