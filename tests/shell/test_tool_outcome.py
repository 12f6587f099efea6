"""What becomes of an outcome before it is reported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_temporal.calls.tool_outcome import MAX_MESSAGE_CHARS, limit_size, without_secrets


async def credentials_with(*secrets: str) -> Credentials:
    credentials = Credentials(CredentialSource(environment={"NOETL_CREDENTIAL_A": json.dumps({"values": secrets})}))
    await credentials.resolve("a")
    return credentials


@pytest.mark.parametrize(
    "secret", ["ok", "error", "status", "result", "message", "kind", "retryable", "503", "sql", "true", "meta"]
)
async def test_a_secret_equal_to_a_keyword_of_the_engine_does_not_change_its_fields(secret: str) -> None:
    credentials = await credentials_with(secret)
    error = {"kind": "sql", "message": f"no {secret}!", "status": 503, "retryable": True, "code": secret}
    outcome: dict[str, Any] = {"status": "error", "error": error, "meta": {"body": secret}}
    left = without_secrets(outcome, credentials)
    assert left["status"] == "error"
    assert {**left["error"], "message": "", "code": ""} == {**error, "message": "", "code": ""}
    assert (left["meta"], left["error"]["code"]) == ({"body": "***"}, "***")
    assert without_secrets({"status": "ok", "result": {"a": secret}}, credentials) == {
        "status": "ok",
        "result": {"a": "***"},
    }


async def test_a_server_error_is_shortened_without_leaving_a_part_of_a_secret() -> None:
    """``raise exception '%', repeat('x', 60000000)`` was kept whole, and scrubbed for seconds."""
    words = "x" * (MAX_MESSAGE_CHARS - 4) + "hush-hush" + "x" * 60_000_000
    outcome: dict[str, Any] = {"status": "error", "error": {"kind": "sql", "message": words}}
    left = without_secrets(outcome, await credentials_with("hush-hush"))["error"]["message"]
    assert len(left) <= MAX_MESSAGE_CHARS
    assert set(left) == {"x", "*"}
    short = {"status": "error", "error": {"kind": "sql", "message": "no hush-hush"}}
    assert without_secrets(short, await credentials_with("hush-hush"))["error"]["message"] == "no ***"


async def test_a_result_nested_too_deeply_is_reported() -> None:
    result: Any = "hush-hush"
    for _ in range(100_000):
        result = [result]
    left = limit_size(without_secrets({"status": "ok", "result": result}, await credentials_with("hush-hush")), 10**9)
    assert left["error"]["message"] == "the result is nested too deeply for JSON: return a flatter one"
