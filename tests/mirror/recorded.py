"""Histories of real runs and the rows they give, as files.

``python -m tests.mirror.recorded`` folds the recorded histories again and writes their rows, to be looked at in the
diff. ``python -m tests.mirror.recorded record`` runs the playbooks anew first, on an embedded stack of its own and
against dev/testserver.py.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory

from noetl_temporal.mirror.event_row import EventRow
from noetl_temporal.mirror.payloads import as_list, as_mapping
from noetl_temporal.mirror.raw import WorkflowRun, linked_runs
from noetl_temporal.mirror.rows import fold, initial_state

FOLDER = Path(__file__).parent
NAMES = ("failed", "flaky", "pages")


class RecordedRun(msgspec.Struct):
    """One run: who it is, and its history in the JSON of Temporal's own tools."""

    run: WorkflowRun
    history: dict[str, Any]

    def events(self) -> list[HistoryEvent]:
        return list(WorkflowHistory.from_json(self.run.workflow_id, self.history).events)


def read(name: str) -> list[RecordedRun]:
    """A playbook's run and its loops."""
    return msgspec.json.decode((FOLDER / f"histories/{name}.json").read_bytes(), type=list[RecordedRun])


def rows_of(runs: RecordedRun) -> list[EventRow]:
    """Folded in one go."""
    events = runs.events()
    return fold(initial_state(runs.run, events[0]), events, {event.event_id: event for event in events})


def rows_text(runs: list[RecordedRun]) -> str:
    """All rows in the order of their ids, one a line."""
    rows = sorted((row for run in runs for row in rows_of(run)), key=lambda row: row.event_id)
    return "".join(msgspec.json.encode(row).decode() + "\n" for row in rows)


async def _histories(client: Client, root: WorkflowRun) -> list[RecordedRun]:
    handle = client.get_workflow_handle(root.workflow_id, run_id=root.run_id)
    history = await handle.fetch_history()
    children = [await _histories(client, link) for link in linked_runs(root, history.events)]
    return [RecordedRun(root, _anywhere(history.to_json_dict())), *(history for child in children for history in child)]


def _anywhere(value: Any) -> Any:
    """Without stack traces, which show where this was recorded."""
    if (items := as_list(value)) is not None:
        return [_anywhere(item) for item in items]
    if (fields := as_mapping(value)) is not None:
        return {name: _anywhere(inner) for name, inner in fields.items() if name != "stackTrace"}
    return value


async def _record(address: str) -> None:
    from noetl_activities.credentials import CredentialSource
    from noetl_activities.http import tool as http
    from noetl_activities.postgres import tool as postgres
    from noetl_activities.python import tool as python
    from noetl_temporal.client import NoetlClient
    from noetl_temporal.payloads.codec import data_converter
    from noetl_temporal.worker import serving

    temporal = await Client.connect(address, data_converter=data_converter(), identity="recorder")
    tools = {module.TOOL.spec.kind: module.TOOL for module in (http, postgres, python)}
    client = NoetlClient(temporal, None, tools)
    async with serving(temporal, tools, CredentialSource()):
        for name in NAMES:
            handle = await client.submit(f"playbooks/{name}.yaml")
            await handle.result()
            histories = await _histories(
                temporal, WorkflowRun("default", handle.workflow_id, handle.run_id or "", "noetl.playbook")
            )
            (FOLDER / f"histories/{name}.json").write_bytes(
                msgspec.json.format(msgspec.json.encode(histories), indent=1)
            )


def _run_anew() -> None:
    from noetl_temporal.stack.home import Home
    from noetl_temporal.stack.owner import owned_stack

    server = [sys.executable, str(FOLDER.parents[1] / "dev/testserver.py"), "--port", "5555"]
    with tempfile.TemporaryDirectory() as folder, owned_stack(Home(Path(folder)), "run") as (_, addresses):
        os.environ.update(addresses.environment())
        os.chdir(FOLDER)
        with subprocess.Popen(server) as process:
            try:
                asyncio.run(_record(addresses.temporal))
            finally:
                process.terminate()


if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        _run_anew()
    for name in NAMES:
        (FOLDER / f"histories/{name}.rows.jsonl").write_text(rows_text(read(name)))
