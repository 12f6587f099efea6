"""A run that is reset while items of its loop wait: each signal that was accepted ends one wait."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest

from noetl_temporal.inspection.replay import replay
from noetl_temporal.machine.waits.wait import Wait
from tests.mirror.resets import reset
from tests.shell.conftest import Shell
from tests.shell.test_waits import answer, until

ITEMS = """\
  - step: start
    loop: {in: [a, b, c, d, e], iterator: name, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: wait, signal: paid}
"""


@pytest.mark.parametrize("task", [0, 1, 3], ids=["before the loop", "after its chunk began", "after items waited"])
async def test_signals_that_came_before_a_reset_end_a_wait_each(shell: Shell, task: int) -> None:
    """The server delivers the signals again, and with them the messages of the chunk that a reset replaces."""
    async with shell.client(answer) as client:
        handle = await shell.submit(client, ITEMS)
        await until(handle, partial(are_named, ["start[0]", "start[1]"]))
        for n in (0, 1):
            await handle.signal("paid", n)
            await until(handle, partial(are_named, [f"start[{n + 1}]", f"start[{n + 2}]"]))
        assert handle.run_id is not None
        run_id = await reset(client.temporal, handle.workflow, handle.run_id, task)
        new = await client.find(handle.execution_id)
        await until(new, partial(are_named, ["start[2]", "start[3]"]))
        for n in (2, 3, 4):
            await new.signal("paid", n)
        report = await asyncio.wait_for(new.result(), 30)
        assert (report.status, sorted(report.result["results"])) == ("completed", [0, 1, 2, 3, 4])
        history = await client.temporal.get_workflow_handle(handle.workflow_id, run_id=run_id).fetch_history()
        assert (await replay(history, client.temporal.data_converter)).problem is None


def are_named(names: list[str], waits: list[Wait]) -> bool:
    return sorted(wait.name for wait in waits) == names
