"""A tool for tests, which calls a function instead of a real system."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from noetl_activities.outcome import Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_activities.tool_spec import ToolSpec

__all__ = ["FakeTool"]


class FakeTool:
    """Returns ``answer(request, context)`` for each request: an Outcome, or a successful result. It may be async.

    ``requests`` are the requests so far, in order.
    """

    def __init__(self, kind: str, answer: Callable[[Request, ToolContext], Any]) -> None:
        self.spec = ToolSpec(kind, "returns the outcomes that a test sets")
        self.requests: list[Request] = []
        self._answer = answer

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """See noetl_activities.tool.Tool."""
        self.requests.append(request)
        result = self._answer(request, context)
        if inspect.isawaitable(result):
            result = await result
        return result if isinstance(result, Outcome) else Outcome("ok", result)
