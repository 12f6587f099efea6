"""Fill in results that several rows share: history has a result over 64 bytes once, and later events refer to the row
that has it. The row of a run's `end`, whose result is made of the results of steps, gets these results.

The row of a task's start stands for the result of the task's last attempt. A row and those that refer to it are of
the same workflow; it was stored before them or is in the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.event_row import ROW, EventRow
from noetl_temporal.mirror.payloads import Json

__all__ = ["ResultsByRow", "fill_in_results", "fill_rows"]

ResultsByRow: TypeAlias = dict[int, dict[str, Json]]
"""The results of rows, by the id under which other rows name them."""

_ATTEMPT = "task.attempt.done"


async def fill_in_results(connection: Connection, stream: str, rows: Sequence[EventRow]) -> list[EventRow]:
    """Return the rows with the results to which they refer; if a result is missing, the reference stays."""
    result_ids = set[int]().union(*map(_referenced_ids, rows))
    if not result_ids:
        return list(rows)
    results: ResultsByRow = {}
    if missing_ids := result_ids - {_result_id(row) for row in rows if row.result is not None}:
        execution_id = rows[0].execution_id
        records = await connection.fetch(sql.query("results"), execution_id, sorted(missing_ids), stream)
        results = {record["named"]: msgspec.json.decode(record["result"]) for record in records}
    return fill_rows(rows, results)


def fill_rows(rows: Sequence[EventRow], results: ResultsByRow) -> list[EventRow]:
    """Return the rows with the results to which they refer, and add their own to ``results``; where none is found, the
    reference stays.
    """
    rows_with_results: list[EventRow] = []
    # Attempts first, as other rows refer to their results.
    for row in sorted(rows, key=lambda row: row.event_type != _ATTEMPT):
        if row.result is not None:
            result = _with_parts(_whole(row.result, results), results)
            results[_result_id(row)] = result
            row = replace(row, result={**result, "status": row.status})
        rows_with_results.append(row)
    return sorted(rows_with_results, key=lambda row: (row.position, row.ordinal))


def _result_id(row: EventRow) -> int:
    """Return the id under which other rows name the result of this one: the last attempt of a task has the id of the
    task's start.
    """
    return (row.event_type == _ATTEMPT and row.parent_event_id) or row.event_id


def _referenced_ids(row: EventRow) -> set[int]:
    """Return the ids under which other rows have the result of this one, or parts of it."""
    result = row.result or {}
    whole = _referenced_id(result)
    return {part["row"] for part in result.get("parts", {}).values()} | (set() if whole is None else {whole})


def _referenced_id(result: dict[str, Json]) -> int | None:
    reference = result.get("reference", {})
    return int(reference["event_id"]) if reference.get("type") == ROW else None


def _whole(result: dict[str, Json], results: ResultsByRow) -> dict[str, Json]:
    row = _referenced_id(result)
    return result if row is None else results.get(row, result)


def _with_parts(result: dict[str, Json], results: ResultsByRow) -> dict[str, Json]:
    """Return the result of an end with the results of the steps that other rows have."""
    if "parts" not in result:
        return result
    parts = {name: _part(part, results.get(part["row"])) for name, part in result["parts"].items()}
    context = {**result["context"], "results": {**result["context"]["results"], **parts}}
    return {"status": result["status"], "context": context}


def _part(part: dict[str, Json], result: dict[str, Json] | None) -> Json:
    if result is None:
        return {"reference": {"type": ROW, "event_id": str(part["row"]), "size": part["size"]}}
    if "reference" in result:
        return {"reference": result["reference"]}
    return result["context"] if part["is_mapping"] else result["context"]["value"]
