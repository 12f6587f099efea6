"""What a task prints is logged while it runs: in noetl.log and in its worker's log, in whole lines without secrets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.python.tool import TOOL
from noetl_activities.testing import FakeTool
from noetl_activities.tool import Request, ToolContext
from noetl_temporal.calls import task_output
from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.calls.run_tool import Attempt
from noetl_temporal.calls.task_log import LogLine, LogTail
from noetl_temporal.calls.task_output import MAX_BYTES, MAX_CHARACTERS, TaskOutput
from noetl_temporal.cli import logging_setup
from noetl_temporal.client import NoetlClient
from noetl_temporal.ids import new_execution_id
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.stack.addresses import Addresses
from noetl_temporal.worker import serving

from .conftest import Shell

SECRETS = CredentialSource(
    environment={
        "NOETL_CREDENTIAL_MINE": '{"type": "bearer", "token": "hush-hush"}',
        "NOETL_CREDENTIAL_KEY": '{"type": "key", "pem": "BEGIN-1234\\nMIIEowIB\\nEND-5678"}',
    }
)


@pytest.fixture
def captured_log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger=logging_setup.TASK_OUTPUT)
    return caplog


@pytest.fixture
async def log(servers: Addresses) -> AsyncIterator[asyncpg.Connection]:
    await migrate(servers.postgres)
    connection = await asyncpg.connect(servers.postgres)
    yield connection
    await connection.close()


def call_of(execution_id: int = 7, **fields: Any) -> ToolCall:
    usual: dict[str, Any] = {"step": "fetch", "task": "fetch_task", "kind": "python", "event_id": 1}
    return ToolCall(id="c", key=f"{execution_id}/k", **{**usual, **fields})


def output_of(call: ToolCall, dsn: str | None = None, credentials: Credentials | None = None) -> TaskOutput:
    attempts = CallLog()
    attempts.begin_attempt()
    attempts.begin_attempt()
    return TaskOutput(call, attempts, credentials or Credentials(SECRETS), dsn)


async def print_texts(*texts: str, **fields: Any) -> None:
    output = output_of(call_of(**fields))
    async with output:
        for text in texts:
            output.feed("stdout", text)


async def lines_of(log: asyncpg.Connection, execution_id: int, step: str | None = None) -> list[LogLine]:
    tail, log_lines = LogTail(execution_id, step), list[LogLine]()
    while lines := await tail.read(log):
        log_lines += lines
    return log_lines


# ---- the worker's log ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call_fields", "place"),
    [
        ({}, "step fetch"),
        ({"iteration": 0}, "step fetch, item 0"),
        ({"iteration": 3, "page": 4}, "step fetch, item 3, page 4"),
        ({"task": "parse"}, "step fetch, task parse"),
    ],
)
async def test_the_log_reports_step_and_attempt(
    captured_log: pytest.LogCaptureFixture, call_fields: dict[str, Any], place: str
) -> None:
    await print_texts("one\n\ntwo\n", **call_fields)
    assert captured_log.messages == [f"execution 7, {place}, attempt 2 printed:\n  | one\n  | \n  | two"]
    fields = {name: getattr(captured_log.records[0], name) for name in ("execution_id", "step", "iteration", "attempt")}
    assert fields == {"execution_id": 7, "step": "fetch", "iteration": call_fields.get("iteration"), "attempt": 2}


@pytest.mark.parametrize(
    ("task", "iteration", "expected"),
    [
        ("fetch_task", None, "fetch: text"),
        ("fetch", 2, "fetch[2]: text"),
        ("parse", None, "fetch/parse: text"),
        ("parse", 2, "fetch/parse[2]: text"),
    ],
)
def test_a_line_names_the_task_where_a_step_has_several(task: str, iteration: int | None, expected: str) -> None:
    line = LogLine(7, datetime.now(UTC), "fetch", task, iteration, None, 1, "stdout", "text")
    assert line.text_with_source() == expected


@pytest.mark.parametrize("text", ["", " \n"])
async def test_nothing_is_logged_where_nothing_is_printed(captured_log: pytest.LogCaptureFixture, text: str) -> None:
    await print_texts(text)
    assert captured_log.messages == []


async def test_no_printed_line_can_be_taken_for_one_of_the_log(captured_log: pytest.LogCaptureFixture) -> None:
    await print_texts("a\r2026-01-01 b\u20282026-01-01 c\v2026-01-01 d")
    formatted = logging_setup._PrintableFormatter(logging_setup.FORMAT).format(captured_log.records[0])  # pyright: ignore[reportPrivateUsage]
    assert [line[:4] for line in formatted.splitlines()[1:]] == ["  | "] * 4


async def test_the_worker_logs_the_beginning_of_a_long_text(captured_log: pytest.LogCaptureFixture) -> None:
    await print_texts("x" * (MAX_CHARACTERS + 1234))
    assert captured_log.messages[0].endswith("x\n  | ... (the rest is omitted)")
    assert len(captured_log.messages[0]) < MAX_CHARACTERS + 200


# ---- noetl.log -------------------------------------------------------------------------------------------------------


async def test_rows_have_their_place_and_their_stream(servers: Addresses, log: asyncpg.Connection) -> None:
    execution = new_execution_id()
    output = output_of(call_of(execution_id=execution, iteration=3, page=2), servers.postgres)
    async with output:
        output.feed("stdout", "one\ntw")
        output.feed("stderr", "care\n")
        output.feed("stdout", "o\nthree \0 \udcff")
    lines = await lines_of(log, execution)
    assert [(line.stream, line.text) for line in lines] == [
        ("stdout", "one"),
        ("stdout", "two"),
        ("stdout", "three \ufffd \ufffd"),
        ("stderr", "care"),
    ]
    assert {(line.step, line.task, line.iteration, line.page, line.attempt) for line in lines} == {
        ("fetch", "fetch_task", 3, 2, 2)
    }
    assert await lines_of(log, execution, "other") == []


async def test_whole_lines_are_stored_while_the_task_runs(servers: Addresses, log: asyncpg.Connection) -> None:
    execution = new_execution_id()
    output = output_of(call_of(execution_id=execution), servers.postgres)
    async with output:
        output.feed("stdout", "done 1\ndone")
        async with asyncio.timeout(10):
            while not (lines := await lines_of(log, execution)):
                await asyncio.sleep(0.05)
        assert [line.text for line in lines] == ["done 1"]
        output.feed("stdout", " 2\n")
    assert [line.text for line in await lines_of(log, execution)] == ["done 1", "done 2"]


@pytest.mark.parametrize("size", [1, 1000, 100_000])
async def test_a_megabyte_is_kept_and_the_truncation_is_reported(
    servers: Addresses, log: asyncpg.Connection, size: int
) -> None:
    execution = new_execution_id()
    output = output_of(call_of(execution_id=execution), servers.postgres)
    async with output:
        for _ in range(2_000_000 // size if size > 1 else 1):
            output.feed("stdout", "ü" * (size if size > 1 else 30_000_000))
    lines = await lines_of(log, execution)
    assert [line.stream for line in lines] == ["stdout", "noetl"]
    assert MAX_BYTES - 2 <= len(lines[0].text.encode()) <= MAX_BYTES
    assert lines[1].text == "the output is truncated here: at most 1,048,576 bytes of an attempt are logged"


async def test_output_within_the_limit_is_complete(servers: Addresses, log: asyncpg.Connection) -> None:
    execution = new_execution_id()
    output = output_of(call_of(execution_id=execution), servers.postgres)
    text = "".join(f"{number}\n" for number in range(150_000))
    async with output:
        for start in range(0, len(text), 65536):
            output.feed("stdout", text[start : start + 65536])
            await asyncio.sleep(0.05)
    lines = await lines_of(log, execution)
    assert [line.text for line in lines] == [str(number) for number in range(150_000)]


async def test_an_unfinished_line_costs_no_time_for_each_piece(captured_log: pytest.LogCaptureFixture) -> None:
    del captured_log
    async with asyncio.timeout(10):
        await print_texts(*["."] * 900_000)


# ---- secrets ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mine", "key"])
@pytest.mark.parametrize("pause", [0.0, 0.4])
async def test_a_secret_in_pieces_is_masked(
    servers: Addresses, log: asyncpg.Connection, captured_log: pytest.LogCaptureFixture, name: str, pause: float
) -> None:
    execution, credentials = new_execution_id(), Credentials(SECRETS)
    fields = await credentials.resolve(name)
    secret = fields["token" if name == "mine" else "pem"]
    output = output_of(call_of(execution_id=execution), servers.postgres, credentials)
    async with output:
        for piece in ("first\nit is ", secret[:13], secret[13:], "\nlast"):
            output.feed("stdout", piece)
            await asyncio.sleep(pause)
    lines = [line.text for line in await lines_of(log, execution)]
    assert lines == ["first", "it is ***", "last"]
    assert not any(part in captured_log.text for part in (*secret.splitlines(), "hush"))


async def test_a_secret_at_the_truncation_is_masked(servers: Addresses, log: asyncpg.Connection) -> None:
    execution, credentials = new_execution_id(), Credentials(SECRETS)
    secret = (await credentials.resolve("mine"))["token"]
    output = output_of(call_of(execution_id=execution), servers.postgres, credentials)
    async with output:
        for _ in range(3_000_000 // len(secret)):
            output.feed("stdout", secret)
    assert "hush" not in "".join(line.text for line in await lines_of(log, execution))


# ---- calls -----------------------------------------------------------------------------------------------------------


async def test_a_store_that_is_unavailable_delays_no_call_twice(
    monkeypatch: pytest.MonkeyPatch, captured_log: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(task_output, "STORE_SECONDS", 0.5)
    dsn = "postgresql://nobody:x@127.0.0.1:9/nowhere"
    for _ in range(2):
        output = output_of(call_of(), dsn)
        async with asyncio.timeout(2), output:
            output.feed("stdout", "heard\n")
    assert [record.levelname for record in captured_log.records].count("WARNING") == 1
    assert captured_log.text.count("| heard") == 2


async def test_a_python_task_prints_to_the_log(servers: Addresses, log: asyncpg.Connection) -> None:
    code = """
import logging, sys
print("out")
print("err", file=sys.stderr)
logging.getLogger("mine").info("told")
logging.debug("not told")
raise ValueError("no")
"""
    execution = new_execution_id()
    attempts = CallLog()
    attempts.begin_attempt()
    values = ValueStore(data_converter(servers.postgres))
    call = call_of(execution_id=execution, config={"code": code})
    report = await Attempt(TOOL, call, Credentials(SECRETS), attempts, values, asyncio.Event()).run()
    assert report.outcome["status"] == "error"
    lines = [(line.stream, line.text) for line in await lines_of(log, execution)]
    assert set(lines[:-4]) == {("stdout", "out"), ("stderr", "err"), ("stderr", "INFO mine: told")}
    assert [text for _, text in lines[-4:]] == [
        "Traceback (most recent call last):",
        '  File "<python task>", line 7, in <module>',
        '    raise ValueError("no")',
        "ValueError: no",
    ]


LOOP = """
  - step: start
    loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel} FRAME}
    tool: {kind: noop, input: {n: "{{ n }}"}}
"""


@pytest.mark.parametrize("frame", ["", ", frame: {max_rows: 2}"])
async def test_output_of_a_run_is_stored_before_it_ends(
    servers: Addresses, log: asyncpg.Connection, frame: str
) -> None:
    async def answer(request: Request, context: ToolContext) -> int:
        context.output("stdout", f"item {request.input['n']}\n")
        return 1

    tools = {"noop": FakeTool("noop", answer)}
    client = await NoetlClient.connect(servers.temporal, dsn=servers.postgres, tools=tools)
    async with serving(client.temporal, tools, SECRETS):
        handle = await Shell.submit(client, LOOP.replace(" FRAME", frame))
        assert (await handle.result()).status == "completed"
        lines = await lines_of(log, handle.execution_id, "start")
    assert sorted((line.iteration, line.text) for line in lines) == [(0, "item 1"), (1, "item 2"), (2, "item 3")]


async def test_output_before_a_timeout_is_kept(servers: Addresses, log: asyncpg.Connection) -> None:
    execution = new_execution_id()
    attempts = CallLog()
    attempts.begin_attempt()
    values = ValueStore(data_converter(servers.postgres))
    call = call_of(execution_id=execution, timeout=1.0, config={"code": "print('begun')\nimport time\ntime.sleep(60)"})
    report = await Attempt(TOOL, call, Credentials(SECRETS), attempts, values, asyncio.Event()).run()
    assert report.outcome["error"]["kind"] == "timeout"
    assert [line.text for line in await lines_of(log, execution)] == ["begun"]
