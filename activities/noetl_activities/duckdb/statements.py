"""Runs the statements of a call in the DuckDB process, with limits on their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import msgspec

from noetl_activities.duckdb.calls import RunningCall
from noetl_activities.duckdb.driver import duckdb
from noetl_activities.errors import ConfigError
from noetl_activities.non_finite import replace_non_finite
from noetl_activities.outcome import Json, Outcome
from noetl_activities.rows import Statement, sql_result, statement_result

__all__ = ["MAX_BYTES", "MAX_ROWS", "outcome_of", "run_statements"]

MAX_ROWS = 100_000
"""Maximum rows per statement."""

MAX_BYTES = 32_000_000
"""Maximum size of the results of one call as JSON: a larger value cannot be reported."""

MAX_CONTAINERS = 1_000_000
"""Maximum number of lists and mappings in the results of one call: they need far more memory in the worker than as
JSON.
"""

_REMEDY = "aggregate them, or COPY them to a file"

_FETCH_ROWS = 256
"""Number of rows that are fetched before their size is measured."""


def run_statements(
    connection: duckdb.DuckDBPyConnection, statements: Sequence[str], params: Sequence[Any], running_call: RunningCall
) -> list[Statement]:
    """Run the statements and return their results. Raises duckdb.Error, CancelledCallError; ConfigError if a result is
    too large.
    """
    budget = _Budget()
    results: list[Statement] = []
    for text in statements:
        running_call.raise_if_cancelled()
        results.append(_run_statement(connection, text, params, budget))
    return results


def outcome_of(results: list[Statement], database: str) -> Outcome:
    """Return the outcome of a call with these results, as JSON for the worker."""
    result = {**sql_result(results), "database_path": database}
    return Outcome("ok", result, meta=replace_non_finite(result))


class _Budget:
    """The remaining size of the results of a call."""

    def __init__(self) -> None:
        self._bytes = MAX_BYTES
        self._containers = MAX_CONTAINERS

    def spend(self, rows: Json) -> None:
        """Subtract the size of rows. Raises ConfigError if the budget is exceeded."""
        self._bytes -= len(msgspec.json.encode(rows))
        self._containers -= _count_containers(rows)
        if self._bytes < 0:
            raise ConfigError(f"the results are over {MAX_BYTES // 10**6} MB: {_REMEDY}")
        if self._containers < 0:
            raise ConfigError(f"the results have over {MAX_CONTAINERS:,} lists and mappings: {_REMEDY}")


def _count_containers(value: Json) -> int:
    """Return the number of lists and mappings in a value, including itself."""
    members = cast("dict[str, Json]", value).values() if isinstance(value, dict) else cast("list[Json]", value)
    return 1 + sum(_count_containers(value) for value in members if isinstance(value, dict | list))


def _run_statement(
    connection: duckdb.DuckDBPyConnection, text: str, params: Sequence[Any], budget: _Budget
) -> Statement:
    cursor = connection.execute(text, list(params))
    columns = [str(column[0]) for column in cursor.description or []]
    result = statement_result(columns, [])
    while records := cursor.fetchmany(_FETCH_ROWS):
        rows = statement_result(columns, records)["rows"]
        budget.spend(rows)
        result["rows"] += rows
        if len(result["rows"]) > MAX_ROWS:
            raise ConfigError(f"the statement returns over {MAX_ROWS:,} rows: {_REMEDY}")
    return {**result, "row_count": len(result["rows"])}
