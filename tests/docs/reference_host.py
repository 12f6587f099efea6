"""Runs a playbook of the reference: the host of playbook tests with the real tools.

Retry delays and waits take no time here and are recorded; timeouts of steps, loops and playbooks are real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from temporalio.converter import DataConverter

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.tool import Tool
from noetl_compiler.graph import Graph
from noetl_temporal import call_log
from noetl_temporal.call_log import CallLog
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.playbook_tests.host import Run, run_graph
from noetl_temporal.run_tool import Attempt
from noetl_temporal.value_store import ValueStore

__all__ = ["run_playbook"]


async def run_playbook(
    graph: Graph, tools: Mapping[str, Tool], source: CredentialSource, execution_id: int, payload: dict[str, Any]
) -> Run:
    """Run to the end. The loops and calls that are left then are cancelled."""
    run = Run()
    await run_graph(graph, _RealTools(tools, source), execution_id, payload, run)
    return run


@dataclass
class _RealTools:
    """Implements World."""

    tools: Mapping[str, Tool]
    source: CredentialSource

    def now(self) -> int:
        return call_log.now()

    async def wait(self, seconds: float, *, is_timeout: bool) -> None:
        await asyncio.sleep(seconds if is_timeout else 0)

    def attempt(self, call: ToolCall, log: CallLog) -> Attempt:
        values = ValueStore(DataConverter.default)
        return Attempt(self.tools[call.kind], call, Credentials(self.source), log, values, asyncio.Event())
