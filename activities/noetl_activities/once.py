"""The interface of tools that store the outcome of a call together with its writes (semantics.md 26a).

Such a tool commits the outcome in the call's own transaction. Whoever makes the call again, after a crash or a reset of
the workflow, finds it there: it is taken, and nothing runs again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeGuard, runtime_checkable

import msgspec

from noetl_activities.outcome import Json, Outcome
from noetl_activities.tool import Request, Tool, ToolContext

if TYPE_CHECKING:
    from noetl_activities.tool_spec import ToolSpec

__all__ = ["Answer", "LedgerOutcome", "Once", "OnceTool", "keeps_outcomes", "taken"]


class LedgerOutcome(msgspec.Struct, frozen=True):
    """A call's entry in the ledger, stored as JSON: the ``outcome``, and how many attempts had reported when it was
    written, including this one. Failed attempts leave no other record.
    """

    outcome: Json
    used: int = 1


class Once(NamedTuple):
    """Under what the outcome is kept: the call's ``key``, and ``n`` for each time that it is meant to be made.

    ``text`` gives the JSON of the LedgerOutcome that is stored: without secrets, and an error instead of what is too
    large.
    """

    key: str
    n: int
    text: Callable[[Outcome], str]


class Answer(NamedTuple):
    """``is_taken``: the outcome was kept by an attempt before, the ``used``-th that reported, and nothing ran.
    ``is_kept``: it is kept now.
    """

    outcome: Outcome
    is_taken: bool = False
    is_kept: bool = False
    used: int = 0


@runtime_checkable
class OnceTool(Protocol):
    """A tool that stores outcomes; otherwise like noetl_activities.tool.Tool."""

    @property
    def spec(self) -> ToolSpec: ...

    async def run_once(self, request: Request, context: ToolContext, once: Once) -> Answer:
        """Make the call, unless its outcome is found; keep the outcome if the call wrote something."""
        ...

    async def find(self, request: Request, context: ToolContext, once: Once) -> Answer | None:
        """The outcome that is kept; None when there is none. An error that nothing kept when nobody could be asked."""
        ...


def keeps_outcomes(tool: Tool) -> TypeGuard[OnceTool]:
    """Whether it is such a tool. Asked of every call, so without isinstance, which looks at all of the protocol."""
    return hasattr(tool, "run_once")


def taken(text: str) -> Answer:
    """The answer that a kept JSON is."""
    found = msgspec.json.decode(text, type=LedgerOutcome)
    return Answer(msgspec.convert(found.outcome, Outcome), is_taken=True, is_kept=True, used=found.used)
