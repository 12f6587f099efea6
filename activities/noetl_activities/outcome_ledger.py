"""The interface of tools that store the outcome of a call in a ledger, together with its writes (semantics.md 26a).

The ledger is a table in the database to which the call writes. The tool commits the outcome in the call's own
transaction. When the call is repeated, after a crash or a reset of the workflow, the stored outcome is returned and
nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeGuard, runtime_checkable

import msgspec

from noetl_activities.outcome import Json, Outcome
from noetl_activities.tool import Request, Tool, ToolContext

if TYPE_CHECKING:
    from noetl_activities.tool_spec import ToolSpec

__all__ = ["LedgerOutcome", "LedgerResult", "LedgerSlot", "LedgerTool", "result_from_ledger", "stores_outcomes"]


class LedgerOutcome(msgspec.Struct, frozen=True):
    """The outcome of a call, as the ledger stores it in JSON.

    ``used_attempts`` is the number of attempts that the call has made, including the one that stored the outcome:
    earlier attempts failed, and leave no other record.
    """

    outcome: Json
    used_attempts: int = 1


class LedgerSlot(NamedTuple):
    """Where a call stores its outcome in the ledger: under ``key`` and ``repetition`` (tool.Request).

    ``encode_outcome`` returns the JSON of the LedgerOutcome to store: secrets are masked, and a result that is too
    large becomes an error.
    """

    key: str
    repetition: int
    encode_outcome: Callable[[Outcome], str]


class LedgerResult(NamedTuple):
    """The outcome of a call of a LedgerTool.

    ``is_reused``: an earlier attempt stored it, and nothing was executed now; ``used_attempts`` is then that of its
    LedgerOutcome. ``is_in_ledger``: the outcome is in the ledger.
    """

    outcome: Outcome
    is_reused: bool = False
    is_in_ledger: bool = False
    used_attempts: int = 0


@runtime_checkable
class LedgerTool(Protocol):
    """A tool that stores outcomes; otherwise like noetl_activities.tool.Tool."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run_with_ledger(self, request: Request, context: ToolContext, slot: LedgerSlot) -> LedgerResult:
        """Make the call unless its outcome is stored. Store the outcome if the call has written something."""
        ...

    async def find_outcome(self, request: Request, context: ToolContext, slot: LedgerSlot) -> LedgerResult | None:
        """Return the stored outcome; None if there is none. Returns an error outcome if the ledger cannot be read."""
        ...


def stores_outcomes(tool: Tool) -> TypeGuard[LedgerTool]:
    """Whether a tool stores outcomes. Checked for every call, so without isinstance, which is slow for protocols."""
    return hasattr(tool, "run_with_ledger")


def result_from_ledger(text: str) -> LedgerResult:
    """Return the result for the JSON of a stored outcome."""
    outcome = msgspec.json.decode(text, type=LedgerOutcome)
    return LedgerResult(
        msgspec.convert(outcome.outcome, Outcome),
        is_reused=True,
        is_in_ledger=True,
        used_attempts=outcome.used_attempts,
    )
