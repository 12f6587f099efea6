"""Errors that the sandbox causes name the setting of the worker that extends it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from noetl_activities.isolation.probe import describe_isolation
from noetl_activities.python import tool as python
from noetl_activities.shell import tool as shell

from .conftest import Context, request

ISOLATION = asyncio.run(describe_isolation())
pytestmark = pytest.mark.skipif("ports" not in ISOLATION, reason=ISOLATION)

PORTS = "a task connects only to the TCP ports of NOETL_TASK_PORTS of the worker"
MEMORY = "the memory of a task is limited by NOETL_TASK_MEMORY of the worker, in GiB"


@pytest.fixture
def port() -> Iterator[int]:
    """A port of this machine on which a server listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def python_message(code: str, **inputs: int) -> str:
    outcome = await python.TOOL.run(request("python", code=code, input=inputs), Context())
    assert outcome.error is not None
    return outcome.error.message


@pytest.mark.parametrize(
    "code",
    [
        "import socket; socket.create_connection(('127.0.0.1', port))",
        "import urllib.request; urllib.request.urlopen(f'http://127.0.0.1:{port}')",
    ],
)
async def test_a_refused_connection_names_the_setting_of_ports(code: str, port: int) -> None:
    assert (await python_message(code, port=port)).endswith(f": {PORTS}")


async def test_a_refused_connection_of_a_command_names_the_setting_of_ports(port: int) -> None:
    outcome = await shell.TOOL.run(request("shell", command=f"bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'"), Context())
    assert outcome.error is not None
    assert outcome.error.message.endswith(f": {PORTS}")


async def test_too_much_memory_names_the_setting_of_memory() -> None:
    assert await python_message("bytearray(64 * 1024**3)") == f"MemoryError (line 1 of the code): {MEMORY}"


@pytest.mark.skipif("a limit on processes" not in ISOLATION, reason=ISOLATION)
async def test_too_many_processes_name_the_limit() -> None:
    code = "import os, time\nfor _ in range(600):\n    if not os.fork():\n        time.sleep(60)\n"
    message = await python_message(code)
    assert message.startswith("BlockingIOError: [Errno 11] Resource temporarily unavailable (line 3 of the code)")
    assert message.endswith(": a task may have at most 512 processes and threads, if that is why")


async def test_other_errors_have_no_hint() -> None:
    assert await python_message("open('nowhere')") == (
        "FileNotFoundError: [Errno 2] No such file or directory: 'nowhere' (line 1 of the code)"
    )
