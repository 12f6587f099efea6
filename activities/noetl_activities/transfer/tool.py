"""The transfer tool: copies rows from one database or server to another.

The source is read in batches (source.py) while the target stores them (target.py).
"""

from __future__ import annotations

from contextlib import aclosing

from noetl_activities.errors import FailedError
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot, result_from_ledger
from noetl_activities.sinks import OutcomeLookup, find_outcome
from noetl_activities.tool import Request, ToolContext
from noetl_activities.tool_spec import built_in
from noetl_activities.transfer.call import transfer_call
from noetl_activities.transfer.source import read_batches
from noetl_activities.transfer.target import store_batches
from noetl_compiler.language.sinks import TRANSACTIONAL_KINDS
from noetl_compiler.language.transfers import SNOWFLAKE_TRANSFER, TRANSFER

__all__ = ["SNOWFLAKE_TOOL", "TOOL", "TransferTool"]

MAX_CONCURRENT = 16
"""A transfer may need two connections of one credential. If the number of transfers is less than half of
postgres_pool.MAX_OPEN, they cannot deadlock by all waiting for their second connection.
"""


class TransferTool:
    """The tools transfer and snowflake_transfer. Their fields:

    ``source, target, chunk_size, mode, mapping``. Older playbooks have a ``direction`` instead of the types of the
    source and the target.
    """

    def __init__(self, kind: str) -> None:
        self.spec = built_in(kind, max_concurrent=MAX_CONCURRENT)

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``{status, rows_transferred, chunks, source, target}``."""
        return (await self._run(request, context, None)).outcome

    async def run_with_ledger(self, request: Request, context: ToolContext, slot: LedgerSlot) -> LedgerResult:
        """Run the call unless the ledger of the target has its outcome. See outcome_ledger.LedgerTool."""
        return await self._run(request, context, slot)

    async def find_outcome(self, request: Request, context: ToolContext, slot: LedgerSlot) -> LedgerResult | None:
        """See outcome_ledger.LedgerTool."""
        target = transfer_call(request.config, request.auth).target
        if target.kind not in TRANSACTIONAL_KINDS:
            return None
        try:
            lookup = OutcomeLookup(target.kind, target.config, target.auth, slot.key, slot.repetition)
            text = await find_outcome(lookup, context)
        except FailedError as error:
            return LedgerResult(error.outcome)
        return None if text is None else result_from_ledger(text)

    async def _run(self, request: Request, context: ToolContext, slot: LedgerSlot | None) -> LedgerResult:
        call = transfer_call(request.config, request.auth)
        if (
            slot is not None
            and call.target.kind == "duckdb"
            and (outcome := await self.find_outcome(request, context, slot))
        ):
            return outcome
        try:
            async with aclosing(read_batches(call.source, call.batch_size, request, context)) as batches:
                return await store_batches(call, batches, request, context, slot)
        except FailedError as error:
            return LedgerResult(error.outcome)


TOOL = TransferTool(TRANSFER)
SNOWFLAKE_TOOL = TransferTool(SNOWFLAKE_TRANSFER)
