"""Runs a playbook of the reference: the host of playbook tests with the real tools.

Retry delays and waits take no time here and are recorded; timeouts of steps, loops and playbooks are real.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from temporalio.converter import DataConverter

from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.tool import Tool
from noetl_compiler.graph import Graph
from noetl_temporal.calls.call_log import CallLog, now
from noetl_temporal.calls.run_tool import Attempt
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.machine.facts import Decided, Fact, Signalled
from noetl_temporal.machine.playbook import PlaybookMachine
from noetl_temporal.machine.waits.refusals import decision_refusal, signal_refusal
from noetl_temporal.machine.waits.wait import Signal
from noetl_temporal.payloads.value_store import ValueStore
from noetl_temporal.playbook_tests.host import TrialRun, run_graph

__all__ = ["Received", "run_playbook"]


@dataclass
class Received:
    """What a run receives from outside: signals by name, decisions by step."""

    signals: Mapping[str, Any]
    decisions: Mapping[str, Mapping[str, Any]]

    def facts(self, machine: PlaybookMachine) -> Iterator[Fact]:
        """The signals, each of which the run has to accept."""
        for number, (name, data) in enumerate(self.signals.items(), 1):
            fields = cast("dict[str, Any]", data) if isinstance(data, dict) else {}
            signal = Signal(name, fields["data"], str(fields["key"])) if "key" in fields else Signal(name, data)
            assert signal_refusal(machine.graph, machine.state, signal, []) is None
            yield Signalled(now(), number, signal)

    def decision(self, machine: PlaybookMachine) -> Decided | None:
        """That on the first approval that is open."""
        wait = next((wait_ for wait_ in machine.state.waits.values() if wait_.step in self.decisions), None)
        if wait is None:
            return None
        decision = Decided(now(), 1_000 + machine.state.ids.last, wait.id, **self.decisions[wait.step])
        assert decision_refusal(machine.state, decision, []) is None
        return decision


NOTHING_RECEIVED = Received({}, {})


async def run_playbook(
    graph: Graph,
    tools: Mapping[str, Tool],
    source: CredentialSource,
    execution_id: int,
    payload: dict[str, Any],
    called: Mapping[str, Graph],
    received: Received = NOTHING_RECEIVED,
) -> TrialRun:
    """Run to the end. The loops and calls that are left then are cancelled. ``called`` are the playbooks that it may
    call, by their paths.
    """
    run = TrialRun()
    await run_graph(graph, _RealTools(tools, source, called, received), execution_id, payload, run)
    return run


@dataclass
class _RealTools:
    """Implements World."""

    tools: Mapping[str, Tool]
    source: CredentialSource
    called: Mapping[str, Graph]
    received: Received
    deciding: asyncio.Task[None] | None = None

    def now(self) -> int:
        return now()

    async def wait(self, seconds: float, *, is_timeout: bool) -> None:
        await asyncio.sleep(seconds if is_timeout else 0)

    def playbook(self, call: ToolCall) -> Graph:
        return self.called[call.config["path"]]

    def start_requests(self, machine: PlaybookMachine, run: TrialRun, receive: Callable[[Fact], None]) -> None:
        del run
        for fact in self.received.facts(machine):
            receive(fact)
        if self.received.decisions:
            self.deciding = asyncio.create_task(self._decide(machine, receive))

    async def _decide(self, machine: PlaybookMachine, receive: Callable[[Fact], None]) -> None:
        decided_steps: set[str] = set()
        while machine.state.phase != "ended":
            decision = self.received.decision(machine)
            if decision is not None and decision.wait_id not in decided_steps:
                decided_steps.add(decision.wait_id)
                receive(decision)
            await asyncio.sleep(0.001)

    def attempt(self, call: ToolCall, log: CallLog) -> Attempt:
        values = ValueStore(DataConverter.default)
        credentials = Credentials(self.source, call.secrets_key)
        return Attempt(self.tools[call.kind], call, credentials, log, values, asyncio.Event())
