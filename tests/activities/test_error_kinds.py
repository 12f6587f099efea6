"""What ``error.kind`` says, and that one table decides what is retryable."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import noetl_activities
import noetl_temporal
from noetl_activities import errors
from noetl_activities.duckdb.errors import duckdb_error_kind
from noetl_activities.http.tool import TOOL as HTTP
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.postgres.tool import TOOL as POSTGRES
from noetl_activities.variables import HTTP_ALLOW_VARIABLE
from noetl_compiler.language.error_kinds import ERROR_KINDS, http_kind, is_retryable, sql_kind
from tests.activities.conftest import Context, request

ROOTS = [Path(package.__path__[0]) for package in (noetl_activities, noetl_temporal)]
MAKERS = frozenset(
    {"ErrorInfo", "failed_outcome", "error_outcome", "_undecided_report", "_refusal_report", "_failed_loop_report"}
)


def error_calls() -> Iterator[tuple[str, ast.Call]]:
    """(where, call) of everything in our code that makes an error."""
    for root in ROOTS:
        for path in sorted(root.rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in MAKERS:
                    yield f"{path.name}:{node.lineno}", node


def test_all_kinds_that_the_code_names_are_in_the_table() -> None:
    named_kinds = {
        value.value: location
        for location, call in error_calls()
        for value in call.args[:2]
        if isinstance(value, ast.Constant) and isinstance(value.value, str) and value.value.isidentifier()
    }
    assert {"timeout", "connection", "cancelled", "internal", "exception"} <= named_kinds.keys(), (
        "the search finds them"
    )
    assert {kind: where for kind, where in named_kinds.items() if kind not in ERROR_KINDS} == {}
    error_kinds = [
        var.kind for var in vars(errors).values() if isinstance(var, type) and issubclass(var, errors.ToolError)
    ]
    assert set(error_kinds) <= ERROR_KINDS.keys()


def test_nothing_but_the_table_says_what_is_retryable() -> None:
    assert [
        location for location, call in error_calls() if any(keyword.arg == "retryable" for keyword in call.keywords)
    ] == []


@pytest.mark.parametrize(
    ("kind", "code", "expected"),
    [
        ("server_error", "HTTP_503", True),
        ("client_error", "HTTP_400", False),
        ("client_error", "HTTP_408", True),
        ("sql_40", "40001", True),
        ("sql_40", "40002", False),
        ("sql_23", "23505", False),
        ("a tool's own", None, False),
    ],
)
def test_which_kinds_are_retryable(kind: str, code: str | None, expected: bool) -> None:
    assert is_retryable(kind, code) is ErrorInfo(kind, "m", code).retryable is expected


def test_a_tool_may_say_for_itself_what_is_retryable() -> None:
    assert ErrorInfo("busy", "m", retryable=True).retryable is True
    assert ErrorInfo("timeout", "m", retryable=False).retryable is False


@pytest.mark.parametrize(
    ("status", "kind"),
    [(302, "client_error"), (400, "client_error"), (403, "auth"), (404, "not_found"), (500, "server_error")],
)
def test_kinds_of_http(status: int, kind: str) -> None:
    assert http_kind(status) == kind


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("08006", "connection"),
        ("57P01", "connection"),
        ("28P01", "auth"),
        ("23505", "sql_23"),
        ("57014", "sql_57"),
        ("", "sql_XX"),
        ("'; drop", "sql_XX"),
    ],
)
def test_kinds_of_sqlstates(state: str, kind: str) -> None:
    assert sql_kind(state, "canceling statement due to user request") == kind


def test_each_exception_of_duckdb_has_a_kind() -> None:
    names = [
        name for name, class_ in vars(duckdb).items() if isinstance(class_, type) and issubclass(class_, duckdb.Error)
    ]
    general = {"Error", "DatabaseError", "OperationalError", "ProgrammingError", "ConnectionException"}
    ours = {"InternalError", "InternalException", "FatalException", "SerializationException"}
    unknown = {name for name in names if duckdb_error_kind(name) == "sql_XX"}
    assert unknown <= general | ours
    assert duckdb_error_kind("CatalogException") == "sql_42"


async def get(url: str) -> Outcome:
    return await HTTP.run(request("http", url=url), Context())


async def test_an_unknown_host_is_dns() -> None:
    outcome = await get("http://nowhere.invalid/x?token=hush")
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("dns", True)
    assert outcome.error.message.startswith("GET http://nowhere.invalid/x: ")


async def test_a_server_without_tls_is_tls(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HTTP_ALLOW_VARIABLE, "127.0.0.1")
    outcome = await get(web.replace("http://", "https://"))
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("tls", False)


@pytest.mark.parametrize(
    ("login", "kind"),
    [
        ({"host": "nowhere.invalid"}, "dns"),
        ({"host": "127.0.0.1", "port": "1"}, "connection"),
    ],
)
async def test_an_unreachable_database(login: dict[str, str], kind: str) -> None:
    credential = {"type": "postgres", "user": "u", "password": "p", "database": "d", **login}
    outcome = await POSTGRES.run(request("postgres", "c", command="select 1"), Context(c=credential))
    assert outcome.error is not None
    assert (outcome.error.kind, outcome.pg) == (kind, {"code": None, "sqlstate": None, "position": None})
