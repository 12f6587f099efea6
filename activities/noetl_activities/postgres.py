"""The postgres tool: the task's statements, in one transaction.

One transaction, so that an attempt that fails half-way leaves nothing behind and its retry doubles nothing.
Where one of them refuses a transaction (VACUUM, CREATE DATABASE ...), all of it was undone, and all run without one.
"""

from __future__ import annotations

import re
from typing import Any, cast

import asyncpg

from noetl_activities.errors import ConfigError
from noetl_activities.outcome import Outcome
from noetl_activities.postgres_connect import Connection, connected, sql_error
from noetl_activities.postgres_values import bound
from noetl_activities.rows import Statement, sql_result, statement
from noetl_activities.sql import statements_of
from noetl_activities.tool import Json, Request, ToolContext, ToolSpec

__all__ = ["TOOL", "PostgresTool"]

_COUNT = re.compile(r"(\d+)$")
_REFUSES = (asyncpg.ActiveSQLTransactionError, asyncpg.InvalidTransactionTerminationError)


class PostgresTool:
    """``command|query`` (several statements by ``;``), ``params`` bound to $1, $2 ... of one statement, ``auth``."""

    spec = ToolSpec("postgres", "runs SQL on Postgres")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Result ``{status, rows, columns, row_count, statement_count, statements?}``."""
        statements = statements_of(request.config, "postgres")
        params = _params(request.config.get("params"), statements)
        try:
            async with connected(request.auth, request.config, context, request.connect_timeout) as connection:
                results = await _run(connection, statements, params)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
            return sql_error(error)
        return Outcome("ok", sql_result(results), pg={"code": None, "sqlstate": "00000"})


def _params(params: Json, statements: list[str]) -> list[Any]:
    if params is None:
        return []
    if not isinstance(params, list):
        raise ConfigError("params is a list: its values are bound to $1, $2 ...")
    if len(statements) > 1:
        raise ConfigError("params go with one statement; this task has several")
    return list(cast("list[Any]", params))


async def _run(connection: Connection, statements: list[str], params: list[Any]) -> list[Statement]:
    try:
        async with connection.transaction():
            return [await _one(connection, text, params) for text in statements]
    except _REFUSES:
        return [await _one(connection, text, params) for text in statements]


async def _one(connection: Connection, text: str, params: list[Any]) -> Statement:
    prepared = await connection.prepare(text)
    records = await prepared.fetch(*bound(prepared, params))
    columns = [attribute.name for attribute in prepared.get_attributes()]
    if columns:
        return statement(columns, (tuple(record.values()) for record in records))
    count = _COUNT.search(prepared.get_statusmsg() or "")
    return statement([], [], int(count.group(1)) if count else 0)


TOOL = PostgresTool()
