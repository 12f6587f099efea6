"""The postgres tool: runs the statements of a task in one transaction.

An attempt that fails half-way is rolled back, so its retry duplicates nothing. If a statement cannot run in a
transaction (VACUUM, CREATE DATABASE ...), all are rolled back and run again without a transaction. The transaction also
stores the outcome (ledger_transaction.py); without a transaction, the statements may run twice.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, cast

import asyncpg

from noetl_activities.errors import ConfigError
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot, result_from_ledger
from noetl_activities.postgres.connect import Connection, open_connection
from noetl_activities.postgres.errors import SQL_ERRORS, sql_error
from noetl_activities.postgres.ledger_transaction import StatementsResult, run_with_ledger
from noetl_activities.postgres.transaction import transaction
from noetl_activities.postgres.values import bind_values, check_statement, postgres_text
from noetl_activities.rows import Statement, sql_result, statement_result
from noetl_activities.sinks import postgres_ledger
from noetl_activities.sql import statements_of
from noetl_activities.tool import Json, Request, ToolContext
from noetl_activities.tool_spec import built_in

__all__ = ["TOOL", "PostgresTool"]

MAX_ROWS = 1_000_000
"""Maximum rows per statement: a row is several times as large in memory as on the wire."""

MAX_VALUES = 4_000_000
"""Maximum values per statement: a NULL takes 4 bytes on the wire, and 120 in memory."""

_ROW_COUNT = re.compile(r"(\d+)$")
_TRANSACTION_REFUSALS = (asyncpg.ActiveSQLTransactionError, asyncpg.InvalidTransactionTerminationError)


class PostgresTool:
    """The tool postgres. Its fields:

    ``command|query`` (several statements by ``;``), ``params`` bound to $1, $2 ... of one statement, ``auth``.
    """

    spec = built_in("postgres")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{status, rows, columns, row_count, statement_count, statements?}``."""
        return (await self._run(request, context, None)).outcome

    async def run_with_ledger(self, request: Request, context: ToolContext, slot: LedgerSlot) -> LedgerResult:
        """Run the call unless the ledger of the database has its outcome. See outcome_ledger.LedgerTool."""
        return await self._run(request, context, slot)

    async def find_outcome(self, request: Request, context: ToolContext, slot: LedgerSlot) -> LedgerResult | None:
        """See outcome_ledger.LedgerTool."""
        auth, config, seconds = request.auth, request.config, request.connect_timeout
        try:
            async with open_connection(auth, config, context, seconds) as connection:
                text = await postgres_ledger.find_outcome(connection, slot.key, slot.repetition)
        except SQL_ERRORS as error:
            return LedgerResult(sql_error(error))
        return None if text is None else result_from_ledger(text)

    async def _run(self, request: Request, context: ToolContext, slot: LedgerSlot | None) -> LedgerResult:
        statements = statements_of(request.config, "postgres")
        params = _bound_params(request.config.get("params"), statements)
        try:
            async with open_connection(request.auth, request.config, context, request.connect_timeout) as connection:
                return await _run_in_transaction(
                    connection, lambda: _run_statements(connection, statements, params), slot
                )
        except RecursionError:
            raise ConfigError("a value of the result is nested too deeply: select its parts") from None
        except SQL_ERRORS as error:
            return LedgerResult(sql_error(error, request.config))


def _bound_params(params: Json, statements: list[str]) -> list[Any]:
    if params is None:
        return []
    if not isinstance(params, list):
        raise ConfigError("params must be a list: its values are bound to $1, $2 ...")
    if len(statements) > 1:
        raise ConfigError("params need a single statement; this task has several")
    return list(cast("list[Any]", params))


async def _run_in_transaction(
    connection: Connection, run: Callable[[], Awaitable[StatementsResult]], slot: LedgerSlot | None
) -> LedgerResult:
    try:
        if slot is not None:
            return await run_with_ledger(connection, run, slot)
        async with transaction(connection):
            return LedgerResult((await run()).outcome)
    except _TRANSACTION_REFUSALS:
        return LedgerResult((await run()).outcome)


async def _run_statements(connection: Connection, statements: list[str], params: list[Any]) -> StatementsResult:
    results = [await _run_statement(connection, text, params) for text in statements]
    result = sql_result([rows for rows, _ in results])
    return StatementsResult(Outcome("ok", result, pg={"code": None, "sqlstate": "00000"}), [tag for _, tag in results])


async def _run_statement(connection: Connection, text: str, params: list[Any]) -> tuple[Statement, str]:
    """Run one statement, and return its result and its command tag, such as ``INSERT 0 1``."""
    sql = check_statement(text)
    with _report_unparsable():
        prepared_statement = await connection.prepare(sql)
    values = bind_values(prepared_statement, params)
    with _report_unparsable():
        records = await prepared_statement.fetch(*values)
    if len(records) > MAX_ROWS:
        raise ConfigError(f"the statement returns over {MAX_ROWS:,} rows: request less at a time")
    columns = [attribute.name for attribute in prepared_statement.get_attributes()]
    if len(records) * len(columns) > MAX_VALUES:
        raise ConfigError(f"the statement returns over {MAX_VALUES:,} values: request fewer rows or columns at a time")
    tag = prepared_statement.get_statusmsg() or ""
    if columns:
        return statement_result(columns, (tuple(record.values()) for record in records), fallback=postgres_text), tag
    count = _ROW_COUNT.search(tag)
    return statement_result([], [], int(count.group(1)) if count else 0), tag


@contextmanager
def _report_unparsable() -> Generator[None]:
    """Raise ConfigError if the driver fails on the types and values that a server sends, which it does not validate."""
    try:
        yield
    except (*SQL_ERRORS, RecursionError, TimeoutError):
        raise
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        raise ConfigError(f"the server's response cannot be parsed ({type(error).__name__})") from error


TOOL = PostgresTool()
