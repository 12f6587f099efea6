"""The duckdb tool: runs SQL on a database file of the execution, or on one named by the task, in a separate process
(process.py).

Statements that write run in one transaction, which also stores the outcome (ledger_transaction.py).
"""

from __future__ import annotations

import asyncio
from typing import cast

from noetl_activities.duckdb.location import database_file, has_file
from noetl_activities.duckdb.process import failure_outcome
from noetl_activities.duckdb.process_pool import duckdb_process
from noetl_activities.duckdb.wire import Call, Failed, Find
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot, result_from_ledger
from noetl_activities.sql import single_statement_params, statements_of
from noetl_activities.tool import Request, ToolContext
from noetl_activities.tool_spec import built_in

__all__ = ["TOOL", "DuckdbTool"]


class DuckdbTool:
    """The tool duckdb. Its fields:

    ``command|query`` (several statements by ``;``), ``params`` for ``?`` of the one statement, ``database``.
    """

    spec = built_in("duckdb")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{status, rows, columns, row_count, statement_count, database_path, statements?}``."""
        del context
        return (await self._run(request, None)).outcome

    async def run_with_ledger(self, request: Request, context: ToolContext, slot: LedgerSlot) -> LedgerResult:
        """Run the call unless the ledger of the file has its outcome. See outcome_ledger.LedgerTool."""
        del context
        return await self._run(request, slot)

    async def find_outcome(self, request: Request, context: ToolContext, slot: LedgerSlot) -> LedgerResult | None:
        """See outcome_ledger.LedgerTool."""
        del context
        file = await asyncio.to_thread(database_file, request.config, request.execution_id)
        if not await asyncio.to_thread(has_file, file):
            return None
        async with duckdb_process(file) as process:
            reply = await process.ask(lambda number: Find(number, slot.key, slot.repetition))
        if isinstance(reply, Failed):
            return LedgerResult(failure_outcome(reply, file))
        return None if reply.text is None else result_from_ledger(reply.text)

    async def _run(self, request: Request, slot: LedgerSlot | None) -> LedgerResult:
        statements = statements_of(request.config, "duckdb")
        params = single_statement_params(request.config.get("params"), statements)
        file = await asyncio.to_thread(database_file, request.config, request.execution_id)
        key, repetition, encode_outcome = slot or (None, 0, None)
        async with duckdb_process(file) as process:
            reply = await process.ask(lambda number: Call(number, statements, params, key, repetition), encode_outcome)
        if isinstance(reply, Failed):
            return LedgerResult(failure_outcome(reply, file))
        return cast("LedgerResult", reply.call_result)


TOOL = DuckdbTool()
