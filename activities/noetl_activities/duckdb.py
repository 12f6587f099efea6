"""The duckdb tool: SQL on a database file of the execution, or on one that the task names.

Statements that write run in one transaction, which keeps the outcome beside what they wrote (duckdb_once.py).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import duckdb

from noetl_activities.duckdb_file import database_of, in_thread
from noetl_activities.duckdb_once import keeps, run_once
from noetl_activities.errors import ConfigError
from noetl_activities.once import Answer, Once, taken
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.rows import Statement, sql_result, statement
from noetl_activities.sinks import duckdb_ledger as ledger
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
        return (await self._run(request, None)).outcome

    async def run_once(self, request: Request, context: ToolContext, once: Once) -> Answer:
        """The same, but for an outcome that the ledger of the file has. See noetl_activities.once.OnceTool."""
        del context
        return await self._run(request, once)

    async def find(self, request: Request, context: ToolContext, once: Once) -> Answer | None:
        """See noetl_activities.once.OnceTool."""
        del context
        database = database_of(request.config, request.execution_id)
        if not await asyncio.to_thread(Path(database).exists):
            return None
        try:
            text = await in_thread(database, lambda connection: ledger.find(connection, once.key, once.n))
        except duckdb.Error as error:
            return Answer(_failed(error))
        return None if text is None else taken(text)

    async def _run(self, request: Request, once: Once | None) -> Answer:
        statements = statements_of(request.config, "duckdb")
        params = _params(request.config.get("params"), statements)
        database = database_of(request.config, request.execution_id)

        def work(connection: duckdb.DuckDBPyConnection) -> Answer:
            def run() -> Outcome:
                results = [_one(connection, text, params) for text in statements]
                return Outcome("ok", {**sql_result(results), "database_path": database})

            if once is None or not keeps(connection, statements):
                return Answer(run())
            return run_once(connection, run, once, database)

        try:
            return await in_thread(database, work)
        except duckdb.Error as error:
            return Answer(_failed(error))


def _failed(error: duckdb.Error) -> Outcome:
    retryable = isinstance(error, duckdb.IOException | duckdb.TransactionException)
    return Outcome("error", error=ErrorInfo("sql", str(error), type(error).__name__, retryable))


def _params(params: Json, statements: list[str]) -> list[Any]:
    if params is not None and (not isinstance(params, list) or len(statements) > 1):
        raise ConfigError("params is a list for the one statement of the task")
    return list(cast("list[Any]", params or []))


def _one(connection: duckdb.DuckDBPyConnection, text: str, params: list[Any]) -> Statement:
    cursor = connection.execute(text, params)
    columns = [str(column[0]) for column in cursor.description or []]
    rows = cursor.fetchmany(MAX_ROWS + 1)
    if len(rows) > MAX_ROWS:
        raise ConfigError(f"the statement gives over {MAX_ROWS:,} rows: aggregate them, or COPY them to a file")
    return statement(columns, rows)


TOOL = DuckdbTool()
