"""The two workflows without the flag that keeps them out of the SDK's sandbox, and three that break its rules.

The sandbox imports this module, and all of ours below it, anew for each workflow.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from temporalio import workflow

from dev.histories.limits import active, lower
from noetl_temporal.ids import new_execution_id
from noetl_temporal.messages.run_input import Playbook, RunInput, RunReport
from noetl_temporal.naming import LOOP_WORKFLOW, PLAYBOOK_WORKFLOW
from noetl_temporal.workflows.definitions import LoopWorkflow, PlaybookWorkflow
from noetl_temporal.workflows.loop_run import LoopBody, LoopEnd, LoopRun

__all__ = ["ReadsAFile", "ReadsTheClock", "ReadsTheClockBelow", "SandboxedLoop", "SandboxedPlaybook"]

lower(active)


@workflow.defn(name=PLAYBOOK_WORKFLOW)
class SandboxedPlaybook(PlaybookWorkflow):
    """A playbook."""

    @workflow.init
    def __init__(self, run_input: RunInput, playbook: Playbook) -> None:
        super().__init__(run_input, playbook)

    @workflow.run
    async def run(self, run_input: RunInput, playbook: Playbook) -> RunReport:
        return await super().run(run_input, playbook)


@workflow.defn(name=LOOP_WORKFLOW)
class SandboxedLoop(LoopWorkflow):
    """A loop."""

    @workflow.init
    def __init__(self, loop_run: LoopRun, body: LoopBody, items: list[Any], scope: dict[str, Any]) -> None:
        super().__init__(loop_run, body, items, scope)

    @workflow.run
    async def run(self, loop_run: LoopRun, body: LoopBody, items: list[Any], scope: dict[str, Any]) -> LoopEnd:
        return await super().run(loop_run, body, items, scope)


@workflow.defn(name=PLAYBOOK_WORKFLOW)
class ReadsTheClock(PlaybookWorkflow):
    """A playbook with code that does not replay: another time each time."""

    @workflow.init
    def __init__(self, run_input: RunInput, playbook: Playbook) -> None:
        super().__init__(run_input, playbook)

    @workflow.run
    async def run(self, run_input: RunInput, playbook: Playbook) -> RunReport:
        time.time()
        return await super().run(run_input, playbook)


@workflow.defn(name=PLAYBOOK_WORKFLOW)
class ReadsTheClockBelow(PlaybookWorkflow):
    """The same in a module of ours that the workflow calls: what a workflow imports is watched too."""

    @workflow.init
    def __init__(self, run_input: RunInput, playbook: Playbook) -> None:
        super().__init__(run_input, playbook)

    @workflow.run
    async def run(self, run_input: RunInput, playbook: Playbook) -> RunReport:
        new_execution_id()
        return await super().run(run_input, playbook)


@workflow.defn(name=PLAYBOOK_WORKFLOW)
class ReadsAFile(PlaybookWorkflow):
    """A playbook with code that depends on the machine it runs on."""

    @workflow.init
    def __init__(self, run_input: RunInput, playbook: Playbook) -> None:
        super().__init__(run_input, playbook)

    @workflow.run
    async def run(self, run_input: RunInput, playbook: Playbook) -> RunReport:
        with open(Path(__file__)) as file:  # noqa: ASYNC230, PTH123 - what the sandbox must refuse
            file.read(1)
        return await super().run(run_input, playbook)
