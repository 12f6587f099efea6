"""noetl.execution.state: what the log has of a run so far."""

from __future__ import annotations

import msgspec
import pytest

from noetl_temporal.mirror.store import Store
from tests.mirror.recorded import read, rows_of

STATE = "SELECT state FROM noetl.execution WHERE execution_id = $1"


@pytest.mark.parametrize(
    ("name", "completed_steps", "others"),
    [
        ("flaky", ["end", "start"], {}),
        ("failed", ["end", "fine", "start"], {"broken": {"has_data": False, "status": "failed"}}),
    ],
)
async def test_it_has_the_workload_the_variables_and_the_state_of_steps(
    store: Store, name: str, completed_steps: list[str], others: dict[str, object]
) -> None:
    runs = read(name)
    for run in runs:
        await store.ingest(run.run, run.events())
    rows = [row for row in rows_of(runs[0]) if "_step_results" in (row.context or {})]
    state = msgspec.json.decode(await store.pool.fetchval(STATE, rows[0].execution_id))
    context = rows[-1].context or {}
    assert (state["workload"], state["variables"]) == (context["workload"], context["vars"])
    assert state["completed_steps"] == completed_steps
    assert {step: result for step, result in state["step_results"].items() if step not in completed_steps} == others


async def test_rows_of_a_loop_leave_it_as_it_is(store: Store) -> None:
    playbook, loop = read("pages")
    await store.ingest(playbook.run, playbook.events())
    execution_id = rows_of(playbook)[0].execution_id
    state = await store.pool.fetchval(STATE, execution_id)
    assert state is not None
    await store.ingest(loop.run, loop.events())
    assert await store.pool.fetchval(STATE, execution_id) == state
