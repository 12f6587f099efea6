"""The limits of a loop over a cursor, and the names that the statements of the cursor see (semantics.md 24)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from noetl_compiler import templates
from noetl_compiler.graph import Cursor, Json, Loop
from noetl_compiler.language.names import LEASE
from noetl_temporal.machine import quantities
from noetl_temporal.machine.call import LeaseRenewal, PlainOutcome
from noetl_temporal.machine.commands import ChunkInput, ClaimLimits
from noetl_temporal.machine.stored import loaded_result, reference_in
from noetl_temporal.machine.tasks.rendering import RenderedTask

__all__ = [
    "LEASE_LOST",
    "claim_limits",
    "claimed_rows",
    "has_changed_rows",
    "lease_names",
    "lease_renewal",
    "may_be_released",
]

LEASE_LOST = "lease_lost"
"""The error kind of an iteration whose row another claimer has."""

MIN_LEASE_SECONDS = 1.0
"""A shorter lease would expire before a call begins."""

RENEWALS = 3
"""How often a lease is renewed during its duration."""


def claim_limits(loop: Loop, scope: Mapping[str, Any]) -> ClaimLimits:
    """Return the limits of the loop's claimers. Raises TemplateFailure."""
    cursor = _cursor_of(loop)
    lease = max(MIN_LEASE_SECONDS, _seconds(cursor, "lease_seconds", scope) or 0)
    interval = max(MIN_LEASE_SECONDS / RENEWALS, _seconds(cursor, "heartbeat_seconds", scope) or lease / RENEWALS)
    limit = None if loop.limit is None else templates.render(loop.limit, scope)
    return ClaimLimits(
        rows=quantities.MAX_COUNT if limit is None else quantities.count(limit, "limit", loop.span),
        max_rows=_count(cursor, "max_rows", scope),
        row_concurrency=_count(cursor, "row_concurrency", scope),
        lease_seconds=lease,
        renewal_seconds=min(interval, lease / 2),
        max_attempts=_count(cursor, "max_attempts", scope),
    )


def _cursor_of(loop: Loop) -> Cursor:
    if loop.cursor is None:
        raise templates.TemplateFailure("the loop has no cursor", loop.span)
    return loop.cursor


def _count(cursor: Cursor, name: str, scope: Mapping[str, Any]) -> int:
    return quantities.count(templates.render(getattr(cursor, name), scope), name, cursor.span, minimum=1)


def _seconds(cursor: Cursor, name: str, scope: Mapping[str, Any]) -> float | None:
    value = getattr(cursor, name)
    duration = None if value is None else templates.render(value, scope)
    return None if duration is None else quantities.seconds(duration, name, cursor.span)


def lease_names(chunk: ChunkInput, claim: int) -> dict[str, Json]:
    """Return the names for the lease of a claim. Its token is unique to the claim and the same in its retries."""
    seconds = chunk.claims.lease_seconds if chunk.claims is not None else 0
    return {LEASE: {"token": f"{chunk.execution_id}/{chunk.chunk_id}/{claim}", "seconds": seconds}}


def lease_renewal(
    cursor: Cursor, limits: ClaimLimits, since: int, scope: Mapping[str, Any], outer: LeaseRenewal | None
) -> LeaseRenewal | None:
    """Return how a call renews the lease of its row, and the ``outer`` one. Raises TemplateFailure."""
    task = cursor.renew
    if task is None:
        return outer
    statement = RenderedTask(task, scope, {})
    return LeaseRenewal(
        task.kind, statement.config, limits.lease_seconds, limits.renewal_seconds, since, statement.auth, outer
    )


def claimed_rows(outcome: PlainOutcome) -> list[Json] | None:
    """Return the rows that a claim returned; None if the statement changed rows without returning them. Raises
    NotLoaded, TemplateFailure.
    """
    value = loaded_result(outcome)
    result = cast("dict[str, Json]", value) if isinstance(value, dict) else {}
    rows = cast("list[Json]", result.get("rows") or [])
    return None if not rows and _row_count(result) else rows


def has_changed_rows(outcome: PlainOutcome) -> bool:
    """Whether a statement changed rows. A result that is stored because of its size contains rows, so it is not loaded,
    which a stopped run could not do.
    """
    return reference_in(outcome) is not None or _row_count(outcome.get("result")) > 0


def _row_count(result: Json) -> int:
    count = cast("dict[str, Json]", result).get("row_count") if isinstance(result, dict) else None
    return count if isinstance(count, int) else 0


def may_be_released(cursor: Cursor, limits: ClaimLimits, scope: Mapping[str, Any]) -> bool:
    """Whether a row whose iteration failed is released. Raises TemplateFailure if its number of claims is unknown."""
    if cursor.on_row_error != "release" or cursor.attempts is None:
        return False
    attempts = templates.render(cursor.attempts, scope)
    return quantities.count(attempts, "attempts", cursor.span) < limits.max_attempts
