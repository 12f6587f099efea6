"""Finds the run that an ID names: an execution id, a workflow id, or the first characters of either.

A whole execution id needs no lookup. Any other ID is looked up in Temporal and in the event log, as a run may be in
only one of them.
"""

from __future__ import annotations

from collections.abc import Mapping

import asyncpg
from temporalio.client import Client

from noetl_temporal.connection_pools import Connection, run_on_pool
from noetl_temporal.ids import ID_LENGTHS, MAX_EXECUTION_ID, exact_id
from noetl_temporal.mirror import sql
from noetl_temporal.search_attributes import EXECUTION_ID
from noetl_temporal.visibility import PLAYBOOKS, execution_ids, literal

__all__ = [
    "AmbiguousIdError",
    "exact_id",
    "find_run",
    "matches_in_log",
    "matches_in_temporal",
    "matching_run",
]

MAX_MATCHES = 20
"""The maximum number of matching runs that a message lists."""

Matches = Mapping[int, str]
"""Workflow ids of runs, by execution id."""


class AmbiguousIdError(LookupError):
    """Several runs have IDs with this prefix. The message lists them."""


def matching_run(text: str, matches: Matches) -> int | None:
    """Return the execution id of the run that the text names; None if there is no match. A whole ID names its run even
    if other IDs begin with it. Raises AmbiguousIdError.
    """
    exact_matches = [id_ for id_, workflow in matches.items() if text in (str(id_), workflow)]
    if len(exact_matches) == 1 or len(matches) == 1:
        return exact_matches[0] if exact_matches else next(iter(matches))
    if not matches:
        return None
    latest = sorted(matches.items(), reverse=True)[:MAX_MATCHES]
    more_line = [f"  and {len(matches) - len(latest)} more"] if len(matches) > len(latest) else []
    lines = "\n".join([*(f"  {id_}  {workflow}" for id_, workflow in latest), *more_line])
    raise AmbiguousIdError(f"{len(matches)} runs have an ID that begins with {text!r}: write more of it\n{lines}")


async def find_run(text: str, client: Client, dsn: str | None) -> int | None:
    """Return the execution id of the run that an ID names; None if neither Temporal nor the event log has such a run.

    Raises AmbiguousIdError, RPCError, asyncpg's errors, OSError."""
    execution_id = exact_id(text)
    if execution_id is not None:
        return execution_id
    in_log = await matches_in_log(dsn, text) if dsn else {}
    return matching_run(text, {**in_log, **await matches_in_temporal(client, text)})


async def matches_in_temporal(client: Client, text: str) -> dict[int, str]:
    """Return the runs in Temporal whose ids begin with the text. Raises RPCError."""
    ranges = " OR ".join(f"{EXECUTION_ID.name} BETWEEN {low} AND {high}" for low, high in _ranges(text))
    terms = f"WorkflowId STARTS_WITH {literal(text)}" + (f" OR {ranges}" if ranges else "")
    workflows = client.list_workflows(f"{PLAYBOOKS} AND ({terms})", limit=2 * MAX_MATCHES)
    matches = await execution_ids(client, [workflow async for workflow in workflows])
    return {id_: workflow.id for id_, workflow in matches}


async def matches_in_log(dsn: str, text: str) -> dict[int, str]:
    """Return the runs in the event log whose ids begin with the text. Raises asyncpg's errors, OSError."""
    ranges = _ranges(text)
    lows, highs = [low for low, _ in ranges], [high for _, high in ranges]

    async def fetch(connection: Connection) -> list[asyncpg.Record]:
        return await connection.fetch(sql.query("executions_like"), text, lows, highs, 2 * MAX_MATCHES)

    return {record["execution_id"]: record["workflow_id"] for record in await run_on_pool(dsn, fetch)}


def _ranges(text: str) -> list[tuple[int, int]]:
    """Return the ranges of execution ids that begin with these digits."""
    if not text.isdecimal():
        return []
    sizes = [10 ** (length - len(text)) for length in ID_LENGTHS if length >= len(text)]
    first = int(text)
    return [
        (first * size, min((first + 1) * size - 1, MAX_EXECUTION_ID))
        for size in sizes
        if first * size <= MAX_EXECUTION_ID
    ]
