"""The noop tool: does nothing, so that a step can route, set values or wait for a policy."""

from __future__ import annotations

from noetl_activities.outcome import Outcome
from noetl_activities.tool import Request, ToolContext
from noetl_activities.tool_spec import built_in

__all__ = ["TOOL", "NoopTool"]


class NoopTool:
    """The tool noop. Its field: ``result``."""

    spec = built_in("noop")

    async def run(self, request: Request, context: ToolContext) -> Outcome:
        """Return ``result``; without it ``{status: "noop"}`` with the input and the other fields of the task."""
        del context
        if "result" in request.config:
            return Outcome("ok", request.config["result"])
        return Outcome("ok", {"status": "noop", **request.input, **request.config})


TOOL = NoopTool()
