"""The snowflake tool: runs SQL in Snowflake, each statement in a separate transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl_activities.errors import ConfigError, FailedError
from noetl_activities.outcome import Outcome
from noetl_activities.rows import Statement, sql_result, statement_result
from noetl_activities.snowflake.session import open_session
from noetl_activities.sql import single_statement_params, statements_of
from noetl_activities.tool import Json, Request, ToolContext
from noetl_activities.tool_spec import built_in

__all__ = ["TOOL", "SnowflakeTool"]

MAX_CONCURRENT = 16
MAX_ROWS = 100_000
"""Maximum rows per statement."""


class SnowflakeTool:
    """The tool snowflake. Its fields:

    ``command|query`` (several statements by ``;``), ``params`` for ``%s`` of the one statement, ``auth``.
    """

    spec = built_in("snowflake", max_concurrent=MAX_CONCURRENT)

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{status, rows, columns, row_count, statement_count, statements?}``."""
        statements = statements_of(request.config, "snowflake")
        params = single_statement_params(request.config.get("params"), statements)
        try:
            async with open_session(request.auth, request.config, context) as snowflake:
                return Outcome(
                    "ok", sql_result([await snowflake.call(_statement_runner(text, params)) for text in statements])
                )
        except FailedError as error:
            return error.outcome


def _statement_runner(text: str, params: list[Json]) -> Callable[[Any], Statement]:
    def run(connection: Any) -> Statement:
        with connection.cursor() as cursor:
            cursor.execute(text, params or None)
            rows = cursor.fetchmany(MAX_ROWS + 1)
            if len(rows) > MAX_ROWS:
                raise ConfigError(f"the statement returns over {MAX_ROWS:,} rows: request less at a time")
            return statement_result([column[0] for column in cursor.description or ()], rows)

    return run


TOOL = SnowflakeTool()
