"""Ctrl-C while Temporal is asked to start the run: it has the run already, and the answer is not there yet."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import pytest
from temporalio.client import Client, WorkflowHandle

from noetl_temporal.stack.addresses import Addresses
from tests.acceptance.mute import Mute, mute
from tests.acceptance.site import ROOT, Site

pytestmark = pytest.mark.stack

LARGE = 4000
"""Bytes: of what is sent before, nothing is as long as the request to start the run with its payload, which no
compression makes shorter."""


@pytest.fixture
def way(servers: Addresses, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mute]:
    """To a cluster without workers; it falls silent when a run is submitted."""
    with mute(servers.temporal, LARGE) as way:
        for name, value in {**servers.environment(), "TEMPORAL_ADDRESS": way.address}.items():
            monkeypatch.setenv(name, value)
        yield way


class Submitting(NamedTuple):
    """``noetl run`` that was interrupted once, and the run that Temporal has of it."""

    process: subprocess.Popen[str]
    workflow: WorkflowHandle[Any, Any]

    def says(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()


@pytest.fixture
async def submitting(way: Mute, servers: Addresses, bare: Site) -> AsyncIterator[Submitting]:
    client = await Client.connect(servers.temporal)

    async def open_runs() -> set[str]:
        query = "NoetlPath = 'examples/hello' AND ExecutionStatus = 'Running'"
        return {workflow.id async for workflow in client.list_workflows(query)}

    before = await open_runs()
    process = bare.start(
        "run", str(ROOT / "dev/examples/hello.yaml"), "--json", "--set", f"name={secrets.token_hex(2 * LARGE)}"
    )
    assert await asyncio.to_thread(way.is_muted.wait, 30)
    while not (started := await open_runs() - before):
        await asyncio.sleep(0.05)
    run = Submitting(process, client.get_workflow_handle(started.pop()))
    process.send_signal(signal.SIGINT)
    assert "cancelling as soon as Temporal confirms that the run has started" in run.says()
    yield run
    process.kill()
    process.communicate()
    await run.workflow.terminate()


async def test_ctrl_c_cancels_the_run_once_it_is_known(way: Mute, submitting: Submitting) -> None:
    way.let_go()
    for says in ("cancelling; waiting", "skipping"):
        while says not in (line := submitting.says()):
            assert "waiting for a worker" in line
        submitting.process.send_signal(signal.SIGINT)
    out, _ = submitting.process.communicate(timeout=30)
    assert (submitting.process.returncode, json.loads(out)["reason"]) == (3, "left while the run was running")
    assert (await submitting.workflow.describe()).raw_description.workflow_extended_info.cancel_requested


async def test_a_second_ctrl_c_prints_the_run_that_may_have_started(submitting: Submitting) -> None:
    submitting.process.send_signal(signal.SIGINT)
    out, errors = submitting.process.communicate(timeout=30)
    assert submitting.process.returncode == 3
    execution = submitting.workflow.id.rpartition("/")[2]
    assert f"may have started; to end it: noetl terminate {execution}" in errors
    assert f"noetl status {execution}" in errors
    report = json.loads(out)
    assert (report["execution_id"], report["status"]) == (execution, "unknown")
    assert report["workflow_id"] == submitting.workflow.id
