"""Renews the lease of a claimed row while a call works on it (semantics.md 24).

A call that begins late renews the lease first, because another claimer may have the row by then; a running call renews
it at intervals, and is cancelled when the lease is lost. A worker that was frozen detects the loss at its next renewal.
The effects of the call until then are not undone, but the database refuses the acknowledgement of the row.
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
    """The lease has expired or cannot be renewed: another claimer may have the row."""

    kind = "lease_lost"


async def run_with_lease(
    lease: LeaseRenewal | None,
    now_ms: int,
    credentials: Credentials,
    context: ToolContext,
    run: Callable[[], Awaitable[T]],
) -> T:
    """Return the result of ``run``, during which the lease and the leases of outer loops are renewed. ``now_ms`` is in
    milliseconds since the epoch. Raises LeaseLostError.
    """
    if lease is None:
        return await run()
    if lease.outer is not None:
        inner_lease, inner = replace(lease, outer=None), run
        return await run_with_lease(
            lease.outer,
            now_ms,
            credentials,
            context,
            lambda: run_with_lease(inner_lease, now_ms, credentials, context, inner),
        )
    renewer = _Renewer(lease, now_ms, credentials, context)
    await renewer.renew_if_due()
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
    """Renews one lease. ``_renewed_at`` is the time of its last renewal on the event loop's clock."""

    def __init__(self, lease: LeaseRenewal, now_ms: int, credentials: Credentials, context: ToolContext) -> None:
        self._lease = lease
        self._credentials = credentials
        self._context = context
        self._age = max(0.0, (now_ms - lease.since) / 1000)
        self._renewed_at = asyncio.get_running_loop().time() - self._age

    async def renew_if_due(self) -> None:
        """Renew the lease before the call if its interval has passed. Raises LeaseLostError."""
        if self._age >= self._lease.interval:
            await self._renew_with_retries()

    async def renew_until_lost(self) -> None:
        """Renew the lease at intervals. Raises LeaseLostError when it is lost."""
        while True:
            await asyncio.sleep(self._lease.interval)
            await self._renew_with_retries()

    async def _renew_with_retries(self) -> None:
        """Renew the lease, with retries until it expires. Raises LeaseLostError."""
        clock = asyncio.get_running_loop().time
        while True:
            start, outcome = clock(), await self._renew()
            if outcome.status == "ok":
                break
            error = outcome.error or ErrorInfo("tool", "the renewal failed")
            if not error.retryable:
                raise LeaseLostError(f"the lease of the row cannot be renewed: {error.message}")
            if clock() - self._renewed_at > self._lease.seconds:
                raise LeaseLostError(f"the lease of the row expired before it could be renewed: {error.message}")
            await asyncio.sleep(RETRY_SECONDS)
        if not _has_changed_rows(outcome):
            raise LeaseLostError("the lease of the row has expired, and another claimer has the row")
        self._renewed_at = start

    async def _renew(self) -> Outcome:
        from noetl_activities.postgres.tool import TOOL  # its driver is slow to import, and few workers renew leases

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
