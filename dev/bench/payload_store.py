"""Measure stores and loads per second in the payload store, sequentially and concurrently.

    python dev/bench/payload_store.py [--values 300] [--bytes 100000] [--at-once 16]

``loaded`` are read by a process that has not seen them, ``loaded again`` by one that has just read them.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from temporalio.api.common.v1 import Payload
from temporalio.converter import StorageDriverClaim, StorageDriverRetrieveContext, StorageDriverStoreContext

from noetl_temporal.mirror.migrations import migrate
from noetl_temporal.payloads.payload_store import PayloadStore
from noetl_temporal.stack.home import Home
from noetl_temporal.stack.owner import owned_stack

TITLES = ("", "stored/s", "loaded/s", "loaded again/s")


async def rate(work: Sequence[Callable[[], Awaitable[object]]], at_once: int) -> float:
    """Return how many calls of ``work`` end per second."""
    slots = asyncio.Semaphore(at_once)

    async def limited_call(call: Callable[[], Awaitable[object]]) -> None:
        async with slots:
            await call()

    start = time.perf_counter()
    await asyncio.gather(*map(limited_call, work))
    return len(work) / (time.perf_counter() - start)


async def measure(dsn: str, count: int, size: int, at_once: int) -> list[float]:
    """Return the three rates for new values."""
    payloads = [Payload(data=os.urandom(size)) for _ in range(count)]
    claims: list[StorageDriverClaim] = []

    async def store(driver: PayloadStore, payload: Payload) -> None:
        claims.extend(await driver.store(StorageDriverStoreContext(), [payload]))

    async def load(driver: PayloadStore, claim: StorageDriverClaim) -> None:
        await driver.retrieve(StorageDriverRetrieveContext(), [claim])

    writer, reader = PayloadStore(dsn), PayloadStore(f"{dsn}?application_name=another{at_once}")
    store_rate = await rate([partial(store, writer, value) for value in payloads], at_once)
    loads = [partial(load, reader, stored_claim) for stored_claim in claims]
    return [store_rate, await rate(loads, at_once), await rate(loads, at_once)]


async def measure_all(dsn: str, count: int, size: int, at_once: int) -> None:
    await migrate(dsn)
    print("".join(f"{title:>16}" for title in TITLES))
    for number in (1, at_once):
        rates = await measure(dsn, count, size, number)
        print(f"{f'{number} at once':>16}" + "".join(f"{rate:>16,.0f}" for rate in rates), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--values", type=int, default=300)
    parser.add_argument("--bytes", type=int, default=100_000)
    parser.add_argument("--at-once", type=int, default=16)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, owned_stack(Home(Path(folder)), "run") as (_, addresses):
        asyncio.run(measure_all(addresses.postgres, options.values, options.bytes, options.at_once))


if __name__ == "__main__":
    main()
