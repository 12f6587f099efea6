"""What a task prints is in its worker's log, after the tool has ended and without secrets."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from temporalio.testing import ActivityEnvironment

from noetl_activities.credentials import CredentialSource
from noetl_activities.outcome import Outcome
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.cli import logs
from noetl_temporal.codec import data_converter
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.run_tool import tool_activity
from noetl_temporal.task_output import MOST_CHARACTERS, log_printed
from noetl_temporal.value_store import ValueStore


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger=logs.TASK_OUTPUT)
    return caplog


def printed(text: Any, **given: Any) -> None:
    call = ToolCall("c", "k", 7, "fetch", "fetch_task", "python", 1, **given)
    log_printed(call, 2, {"status": "ok", "meta": {"stdout": text}})


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "step fetch"),
        ({"iteration": 0}, "step fetch, item 0"),
        ({"iteration": 3, "page": 4}, "step fetch, item 3, page 4"),
    ],
)
def test_the_log_tells_step_and_attempt(logged: pytest.LogCaptureFixture, given: dict[str, int], place: str) -> None:
    printed("one\n\ntwo\n", **given)
    assert logged.messages == [f"execution 7, {place}, attempt 2 printed:\n  | one\n  | \n  | two"]


def test_a_task_among_others_is_named(logged: pytest.LogCaptureFixture) -> None:
    log_printed(ToolCall("c", "k", 7, "fetch", "parse", "python", 1), 1, {"meta": {"stdout": "x"}})
    assert logged.messages == ["execution 7, step fetch, task parse, attempt 1 printed:\n  | x"]


@pytest.mark.parametrize("text", ["", " \n", None, {"a": 1}])
def test_nothing_is_logged_where_nothing_is_printed(logged: pytest.LogCaptureFixture, text: Any) -> None:
    printed(text)
    assert logged.messages == []


def test_the_output_of_commands_is_logged(logged: pytest.LogCaptureFixture) -> None:
    call = ToolCall("c", "k", 7, "fetch", "fetch_task", "shell", 1)
    for status in ("ok", "error"):
        log_printed(call, 1, {"status": status, "result": {"exit_code": 0, "stdout": "a\nb\n", "stderr": "c\n"}})
        log_printed(call, 1, {"status": status, "result": {"exit_code": 0, "stdout": "", "stderr": ""}})
    assert logged.messages == ["execution 7, step fetch, attempt 1 printed:\n  | a\n  | b\n  | c"] * 2


def test_no_printed_line_can_be_taken_for_one_of_the_log(logged: pytest.LogCaptureFixture) -> None:
    printed("a\r2026-01-01 b\u20282026-01-01 c\v2026-01-01 d")
    told = logs._Printable(logs.FORMAT).format(logged.records[0])  # pyright: ignore[reportPrivateUsage]
    assert [line[:4] for line in told.splitlines()[1:]] == ["  | "] * 4


def test_a_long_text_is_cut(logged: pytest.LogCaptureFixture) -> None:
    printed("x" * (MOST_CHARACTERS + 1234))
    assert logged.messages[0].endswith("x\n  | ... (1,234 more characters)")
    assert len(logged.messages[0]) < MOST_CHARACTERS + 200


async def test_secrets_of_the_call_are_not_logged(logged: pytest.LogCaptureFixture) -> None:
    async def answer(_request: Request, context: ToolContext) -> Outcome:
        found = await context.credential("mine")
        return Outcome("ok", meta={"stdout": f"token {found['token']}"})

    source = CredentialSource(environment={"NOETL_CREDENTIAL_MINE": '{"type": "bearer", "token": "hush-hush"}'})
    activity = tool_activity(FakeTool("noop", answer), source, ValueStore(data_converter()))
    await ActivityEnvironment().run(activity, ToolCall("c", "k", 1, "step", "task", "noop", 1))
    assert "printed:\n  | token " in logged.text
    assert "hush" not in logged.text
