"""Fill in results that several rows share: the interpreter writes a result over 1 KB once, and later events refer to
the row that has it.

A row that started a task has the result of its last attempt. The row is of the same workflow, and was stored before or
is in the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from noetl_temporal.mirror import sql
from noetl_temporal.mirror.connection import Connection
from noetl_temporal.mirror.event_row import ROW, EventRow
from noetl_temporal.mirror.payloads import Json

__all__ = ["fill_in_results"]

_ATTEMPT = "task.attempt.done"


async def fill_in_results(connection: Connection, stream: str, rows: Sequence[EventRow]) -> list[EventRow]:
    """Return the rows with the results to which they refer; if a result is missing, the reference stays."""
    missing_ids = {int(row_id) for row in rows if (row_id := _row_with_result(row)) is not None}
    if not missing_ids:
        return list(rows)
    execution_id = rows[0].execution_id
    records = await connection.fetch(sql.query("results"), execution_id, sorted(missing_ids), stream)
    results: dict[int, dict[str, Json]] = {record["named"]: msgspec.json.decode(record["result"]) for record in records}
    rows_with_results: list[EventRow] = []
    for row in sorted(rows, key=lambda row: row.event_type != _ATTEMPT):
        result_id = _row_with_result(row)
        if result_id is not None and int(result_id) in results:
            row = replace(row, result={**results[int(result_id)], "status": row.status})
        own = row.parent_event_id if row.event_type == _ATTEMPT else row.event_id
        if own in missing_ids and row.result is not None:
            results[own] = row.result
        rows_with_results.append(row)
    return sorted(rows_with_results, key=lambda row: (row.position, row.ordinal))


def _row_with_result(row: EventRow) -> str | None:
    """Return the id of the row that has the result of this one."""
    reference = (row.result or {}).get("reference", {})
    return reference["event_id"] if reference.get("type") == ROW else None
