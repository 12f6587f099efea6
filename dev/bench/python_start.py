"""Measures the overhead of a python call: ``python dev/bench/python_start.py``.

Milliseconds a call, in a row, and for comparison those of an interpreter that runs nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Awaitable, Callable

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.python.tool import TOOL
from noetl_activities.tool import Credential, Json, OutputStream, Request

CALLS = 50


class Context:
    """A call without credentials."""

    attempt = 1

    def heartbeat(self) -> None:
        """Nobody listens."""

    async def credential(self, auth: Json) -> Credential:
        return await Credentials(CredentialSource(environment={})).resolve(auth)

    async def secret(self, name: str, entry_kind: str, config: dict[str, Json]) -> str:
        raise NotImplementedError

    def truncate(self, text: str, limit: int) -> str:
        """No secret is known here."""
        return text[:limit]

    def output(self, stream: OutputStream, text: str) -> None:
        """Nobody reads it."""


async def call() -> None:
    outcome = await TOOL.run(
        Request("python", {"code": "result = 1"}, {}, None, timeout=None, execution_id="1"), Context()
    )
    assert outcome.result == 1, outcome.error


async def interpreter() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-P", "-X", "utf8", "-c", "")
    await process.wait()


async def milliseconds(work: Callable[[], Awaitable[None]]) -> list[float]:
    times: list[float] = []
    for _ in range(CALLS):
        start = time.perf_counter()
        await work()
        times.append(1000 * (time.perf_counter() - start))
    return times


async def main() -> None:
    for name, work in (("call", call), ("interpreter", interpreter)):
        times = await milliseconds(work)
        print(f"{name:12} least {min(times):6.1f} ms, median {statistics.median(times):6.1f} ms")


if __name__ == "__main__":
    asyncio.run(main())
