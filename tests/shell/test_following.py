"""What ``noetl run`` says of a run whose time is up."""

from __future__ import annotations

import asyncio
import io

from rich.console import Console

from noetl_compiler import compile_or_raise
from noetl_temporal.cli.following import Following
from noetl_temporal.cli.interrupts import Interrupts
from noetl_temporal.cli.view import Lines
from noetl_temporal.client import RunHandle

from .conftest import HEAD, Shell

ONE = "  - step: start\n    tool: {kind: noop}\n"


class Late(RunHandle):
    """Asks the run to stop when it has ended, as happens when it ends just after its time is up."""

    let_go: asyncio.Event

    async def cancel(self, reason: str = "") -> bool:
        self.let_go.set()
        await self.result()
        return await super().cancel(reason)


async def test_a_run_that_completes_when_its_time_is_up_is_completed(shell: Shell) -> None:
    out, let_go = io.StringIO(), asyncio.Event()

    async def answer(*_: object) -> int:
        await let_go.wait()
        return 1

    async with shell.client(answer) as client:
        run = await shell.submit(client, ONE)
        late = Late(client.temporal, run.workflow, run.execution_id, None)
        late.let_go = let_go
        graph = compile_or_raise(f"{HEAD}workflow:\n{ONE}", "shell.yaml")
        view = Lines(Console(file=out))
        ended, interrupted = await Following(client, late, view, graph, 0.01, Interrupts()).follow(None)
    assert (ended.status, interrupted) == ("completed", False)
    assert out.getvalue().splitlines() == [
        "timed out after 0.01 s",
        "cancelling; waiting for the cleanup of step end",
    ]
