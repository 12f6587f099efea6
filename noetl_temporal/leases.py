"""Renews the lease of a claimed row while a call works on it (semantics.md 24).

A call that begins late renews the lease first, because the row may be another claimer's by now; a running call renews
it at intervals, and is cancelled when the lease is lost. A worker that was frozen finds out with its next renewal. What
the call did until then is not undone, but only the acknowledgement counts, and the database refuses it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar, cast

from msgspec.structs import replace

from noetl_activities.credentials import Credentials
from noetl_activities.errors import ToolError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.tool import Json, Request, ToolContext
from noetl_temporal.machine.call import LeaseRenewal

__all__ = ["LeaseLostError", "run_with_lease"]

RETRY_SECONDS = 1.0
"""Seconds before a renewal is retried after the database was unavailable."""

T = TypeVar("T")


class LeaseLostError(ToolError):
    """The row belongs to another claimer."""

    kind = "lease_lost"


async def run_with_lease(
    lease: LeaseRenewal | None,
    now: int,
    credentials: Credentials,
    context: ToolContext,
    run: Callable[[], Awaitable[T]],
) -> T:
    """Return the result of ``run``, while the lease and the leases of outer loops are renewed; ``now`` in milliseconds
    since the epoch. Raises LeaseLostError.
    """
    if lease is None:
        return await run()
    if lease.outer is not None:
        inner_lease, inner = replace(lease, outer=None), run
        return await run_with_lease(
            lease.outer,
            now,
            credentials,
            context,
            lambda: run_with_lease(inner_lease, now, credentials, context, inner),
        )
    renewer = _Renewer(lease, now, credentials, context)
    await renewer.check()
    work, renewing = asyncio.ensure_future(run()), asyncio.create_task(renewer.renew_until_lost())
    try:
        await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            renewing.result()
        return await work
    finally:
        for task in (work, renewing):
            task.cancel()
        await asyncio.gather(work, renewing, return_exceptions=True)


class _Renewer:
    def __init__(self, lease: LeaseRenewal, now: int, credentials: Credentials, context: ToolContext) -> None:
        self._lease = lease
        self._credentials = credentials
        self._context = context
        self._age = max(0.0, (now - lease.since) / 1000)
        self._held_at = asyncio.get_running_loop().time() - self._age

    async def check(self) -> None:
        """Renew the lease before the call if it is due. Raises LeaseLostError."""
        if self._age >= self._lease.interval:
            await self._renew_or_wait()

    async def renew_until_lost(self) -> None:
        """Renew the lease until it is lost. Raises LeaseLostError."""
        while True:
            await asyncio.sleep(self._lease.interval)
            await self._renew_or_wait()

    async def _renew_or_wait(self) -> None:
        """Renew the lease, with retries until it expires."""
        clock = asyncio.get_running_loop().time
        while True:
            start, outcome = clock(), await self._renew()
            if outcome.status == "ok":
                break
            error = outcome.error or ErrorInfo("tool", "the renewal failed")
            if not error.retryable:
                raise LeaseLostError(f"the lease of the row cannot be renewed: {error.message}")
            if clock() - self._held_at > self._lease.seconds:
                raise LeaseLostError(f"the lease of the row expired before it could be renewed: {error.message}")
            await asyncio.sleep(RETRY_SECONDS)
        if not _has_changed_rows(outcome):
            raise LeaseLostError("the lease of the row has expired, and another claimer has the row")
        self._held_at = start

    async def _renew(self) -> Outcome:
        from noetl_activities.postgres import TOOL  # its driver is slow to import, and few workers renew leases

        lease = self._lease
        config = await self._credentials.with_secrets(lease.config, lease.kind)
        try:
            async with asyncio.timeout(lease.seconds):
                return await TOOL.run(Request(lease.kind, config, auth=lease.auth), self._context)
        except TimeoutError:
            return Outcome("error", error=ErrorInfo("timeout", "the database does not answer"))


def _has_changed_rows(outcome: Outcome) -> bool:
    result = outcome.result
    return isinstance(result, dict) and bool(cast("dict[str, Json]", result).get("row_count"))
