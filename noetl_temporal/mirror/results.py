"""Fills in results that several rows share: history has a result over 64 bytes only once, and later events refer to the
row that has it. The result of a run's ``end`` contains the results of steps, which are filled in as well.

A reference to the row that starts a task means the result of the task's last attempt. A row and those that refer to it
belong to the same workflow; it was stored before them or is in the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.event_row import ROW_REFERENCE, EventRow
from noetl_temporal.mirror.payloads import Json

__all__ = ["ResultsByRow", "fill_in_results", "fill_rows"]

ResultsByRow: TypeAlias = dict[int, dict[str, Json]]
"""The results of rows, by the id with which other rows refer to each."""

_ATTEMPT = "task.attempt.done"


async def fill_in_results(connection: Connection, stream: str, rows: Sequence[EventRow]) -> list[EventRow]:
    """Return the rows with the results that they refer to. If a result is missing, the reference stays."""
    result_ids = set[int]().union(*map(_referenced_ids, rows))
    if not result_ids:
        return list(rows)
    results: ResultsByRow = {}
    if missing_ids := result_ids - {_result_id(row) for row in rows if row.result is not None}:
        execution_id = rows[0].execution_id
        records = await connection.fetch(sql.query("results"), execution_id, sorted(missing_ids), stream)
        results = {record["row_id"]: msgspec.json.decode(record["result"]) for record in records}
    return fill_rows(rows, results)


def fill_rows(rows: Sequence[EventRow], results: ResultsByRow) -> list[EventRow]:
    """Return the rows with the results that they refer to, and add their own to ``results``. If a result is missing,
    the reference stays.
    """
    rows_with_results: list[EventRow] = []
    # Attempts first, as other rows refer to their results.
    for row in sorted(rows, key=lambda row: row.event_type != _ATTEMPT):
        if row.result is not None:
            result = _with_parts(_referenced_result(row.result, results), results)
            results[_result_id(row)] = result
            row = replace(row, result={**result, "status": row.status})
        rows_with_results.append(row)
    return sorted(rows_with_results, key=lambda row: (row.position, row.ordinal))


def _result_id(row: EventRow) -> int:
    """Return the id with which other rows refer to this row's result: for the last attempt of a task, the id of the
    task's start.
    """
    return (row.event_type == _ATTEMPT and row.parent_event_id) or row.event_id


def _referenced_ids(row: EventRow) -> set[int]:
    """Return the ids of the rows that have the result of this one, or parts of it."""
    result = row.result or {}
    result_id = _referenced_id(result)
    return {part["row"] for part in result.get("parts", {}).values()} | (set() if result_id is None else {result_id})


def _referenced_id(result: dict[str, Json]) -> int | None:
    reference = result.get("reference", {})
    return int(reference["event_id"]) if reference.get("type") == ROW_REFERENCE else None


def _referenced_result(result: dict[str, Json], results: ResultsByRow) -> dict[str, Json]:
    result_id = _referenced_id(result)
    return result if result_id is None else results.get(result_id, result)


def _with_parts(result: dict[str, Json], results: ResultsByRow) -> dict[str, Json]:
    """Return the result of an ``end`` with the results of the steps, which other rows have."""
    if "parts" not in result:
        return result
    parts = {name: _part(part, results.get(part["row"])) for name, part in result["parts"].items()}
    context = {**result["context"], "results": {**result["context"]["results"], **parts}}
    return {"status": result["status"], "context": context}


def _part(part: dict[str, Json], result: dict[str, Json] | None) -> Json:
    if result is None:
        return {"reference": {"type": ROW_REFERENCE, "event_id": str(part["row"]), "size": part["size"]}}
    if "reference" in result:
        return {"reference": result["reference"]}
    return result["context"] if part["is_mapping"] else result["context"]["value"]
