"""Runs whose credential is a word of the engine, or whose results are too deep for it: they end, and say why."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl_activities.credentials import CredentialSource
from noetl_activities.errors import ConfigError
from noetl_activities.tool import Request, ToolContext

from .conftest import Shell, history_of

SECRET = "  - step: start\n    tool: {kind: noop, auth: secret}\n"


def nest(depth: int) -> Any:
    value: Any = {"you": "Bearer hush-hush"}
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("depth", [90, 700, 5_000])
async def test_deep_json_in_the_response_to_a_call_with_a_credential_ends_the_call(shell: Shell, depth: int) -> None:
    calls: list[int] = []

    async def answer(request: Request, context: ToolContext) -> Any:
        calls.append(1)
        await context.credential(request.auth)
        return nest(depth)

    async with shell.client(answer) as client:
        handle = await shell.submit(client, SECRET)
        report = await asyncio.wait_for(handle.result(), 60)
        assert len(calls) == 1
        assert report.status == "completed" or report.failures.detailed[0].message
        assert "hush-hush" not in (await history_of(handle)).to_json()


@pytest.mark.parametrize("word", ["status", "ok", "result", "error", "kind", "message", "retryable"])
@pytest.mark.parametrize("is_ok", [True, False])
async def test_a_secret_that_is_a_word_of_the_engine_ends_no_run(shell: Shell, word: str, is_ok: bool) -> None:
    shell.credentials = CredentialSource(environment={"NOETL_CREDENTIAL_SECRET": f'{{"token": "{word}"}}'})

    async def answer(request: Request, context: ToolContext) -> Any:
        await context.credential(request.auth)
        if not is_ok:
            raise ConfigError("as the test says")
        return {"a": 1}

    async with shell.client(answer) as client:
        handle = await shell.submit(client, SECRET)
        report = await asyncio.wait_for(handle.result(), 60)
    assert report.status == ("completed" if is_ok else "failed")
