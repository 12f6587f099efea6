"""A server that sends records in each other without an end: they are refused before the driver decodes them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import struct
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from noetl_activities.postgres.records import MAX_RECORDS, RecordWatch
from noetl_temporal.stack.addresses import Addresses

CALL_PROGRAM = """
import asyncio, json, resource, sys
from dev.attack.tool_calls import call
from noetl_activities.postgres import records as postgres_records
from noetl_activities.errors import ConfigError
from noetl_activities.postgres.tool import TOOL
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
if sys.argv[2] == "unguarded":
    postgres_records.RecordWatch.is_exceeded = lambda *_: False
try:
    asyncio.run(call(TOOL, {"query": "select row(1)"}, credentials={"pg": json.loads(sys.argv[1])}))
except ConfigError as error:
    print(error)
"""
ROW = b"D" + struct.pack("!IhIIIII", 26, 1, 16, 1, 23, 4, 1)
"""The answer to ``select row(1)``."""


def nested_array(levels: int) -> bytes:
    """A record in a record in a record, as Postgres writes it."""
    headers = (struct.pack("!III", 1, 2249, 12 * inner + 4) for inner in range(levels - 1, -1, -1))
    return b"".join(headers) + bytes(4)


def row(value: bytes) -> bytes:
    """The message with a row of this value."""
    return b"D" + struct.pack("!IhI", 4 + 2 + 4 + len(value), 1, len(value)) + value


def exceeds(data: bytes, size: int) -> bool:
    """Whether a watch says so of the data in pieces of that size."""
    watch = RecordWatch()
    return any(watch.is_exceeded(data[at : at + size]) for at in range(0, len(data), size))


@pytest.mark.parametrize("size", [1, 3, 7, 4096, 2**18, 2**30])
def test_records_are_counted_in_each_message_however_it_arrives(size: int) -> None:
    small = b"Z\0\0\0\5I" + ROW * 9 + b"1\0\0\0\4"
    assert exceeds(small + row(nested_array(2 * MAX_RECORDS)), size)
    assert exceeds(small + row(nested_array(2 * MAX_RECORDS)) + small, size)
    assert not exceeds(row(nested_array(MAX_RECORDS - 1)) + small + row(nested_array(MAX_RECORDS - 1)), size)


def test_many_rows_of_few_records_and_similar_numbers_are_accepted() -> None:
    assert not exceeds(row(nested_array(3)) * 50_000, 2**18)
    assert not exceeds(row(struct.pack("!I", 2249)) * 50_000, 2**18)


def test_an_invalid_message_length_ends_the_scan() -> None:
    assert not exceeds(b"D\0\0\0\0" * 1000 + b"D\xff\xff\xff\xff", 7)


@asynccontextmanager
async def forging(port: int, forged_bytes: bytes) -> AsyncGenerator[int]:
    """The port of a server that is the real one, but for that row."""

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, forges: bool) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(2**16):
                writer.write(data.replace(ROW, forged_bytes) if forges else data)
                await writer.drain()
        writer.close()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind_reader, behind_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(forward(reader, behind_writer, forges=False), forward(behind_reader, writer, forges=True))

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("levels", "guard", "message"),
    [
        (500, "guarded", "nested too deeply"),
        (MAX_RECORDS - 1, "guarded", "nested too deeply"),
        (100_000, "guarded", "over 10,000 records"),
        (100_000, "unguarded", ""),
    ],
)
async def test_no_response_of_a_server_crashes_the_worker(
    servers: Addresses, levels: int, guard: str, message: str
) -> None:
    """The control: without the guard the driver ends the process."""
    async with forging(servers.postgres_port, row(nested_array(levels))) as port:
        login = {"db_host": "127.0.0.1", "db_port": port, "db_user": "playbooks", "db_name": "playbooks"}
        credential = json.dumps({"type": "postgres", "db_password": servers.playbooks_password, **login})
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CALL_PROGRAM, credential, guard, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(child.communicate(), 60)
    assert message in output.decode()
    assert child.returncode == (-signal.SIGSEGV if guard == "unguarded" else 0)
