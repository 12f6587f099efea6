"""The duckdb tool: SQL on a database file of the execution, or on one that the task names."""

from __future__ import annotations

from typing import Any, cast

import duckdb

from noetl_activities.duckdb_file import database_of, in_thread
from noetl_activities.errors import ConfigError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.rows import Statement, sql_result, statement
from noetl_activities.sql import statements_of
from noetl_activities.tool import Json, Request, ToolContext, ToolSpec

__all__ = ["MAX_ROWS", "TOOL", "DuckdbTool"]

MAX_ROWS = 100_000


class DuckdbTool:
    """``command|query`` (several statements by ``;``), ``params`` for ``?`` of the one statement, ``database``."""

    spec = ToolSpec("duckdb", "runs SQL on DuckDB")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Result ``{status, rows, columns, row_count, statement_count, database_path, statements?}``."""
        del context
        statements = statements_of(request.config, "duckdb")
        params = _params(request.config.get("params"), statements)
        database = database_of(request.config, request.execution_id)
        try:
            results = await in_thread(database, lambda connection: _run(connection, statements, params))
        except duckdb.Error as error:
            retryable = isinstance(error, duckdb.IOException | duckdb.TransactionException)
            return Outcome("error", error=ErrorInfo("sql", str(error), type(error).__name__, retryable))
        return Outcome("ok", {**sql_result(results), "database_path": database})


def _params(params: Json, statements: list[str]) -> list[Any]:
    if params is not None and (not isinstance(params, list) or len(statements) > 1):
        raise ConfigError("params is a list for the one statement of the task")
    return list(cast("list[Any]", params or []))


def _run(connection: duckdb.DuckDBPyConnection, statements: list[str], params: list[Any]) -> list[Statement]:
    return [_one(connection, text, params) for text in statements]


def _one(connection: duckdb.DuckDBPyConnection, text: str, params: list[Any]) -> Statement:
    cursor = connection.execute(text, params)
    columns = [str(column[0]) for column in cursor.description or []]
    rows = cursor.fetchmany(MAX_ROWS + 1)
    if len(rows) > MAX_ROWS:
        raise ConfigError(f"the statement gives over {MAX_ROWS:,} rows: aggregate them, or COPY them to a file")
    return statement(columns, rows)


TOOL = DuckdbTool()
