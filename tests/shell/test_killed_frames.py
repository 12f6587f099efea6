"""A worker that is killed in the middle of a frame: each row once, and what a heartbeat told is not called again."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import msgspec

from noetl_temporal.client import RunHandle
from noetl_temporal.config import connect_temporal
from noetl_temporal.frames.segments import FrameDetails
from noetl_temporal.mirror.service import follow_execution
from noetl_temporal.stack.addresses import Addresses
from tests.audit import audit_execution
from tests.shell.servers import Site, site
from tests.shell.table import Base
from tests.shell.test_stored_once import submit
from tests.shell.worker_process import worker_process

ITEMS, AT_ONCE = 600, 8
SINK = 'sink: {tool: {kind: postgres, auth: pg_local, table: TABLE, data: {n: "{{ item }}"}}}'
LOOP = f"""
  - step: start
    loop:
      in: "{{{{ range({ITEMS}) | list }}}}"
      iterator: item
      spec: {{mode: parallel, max_in_flight: {AT_ONCE}, frame: {{max_rows: 5000, max_seconds: 600}}}}
    tool:
      - call: {{kind: http, method: GET, url: "URL/size/{{{{ item }}}}", SINK}}
"""


async def told(handle: RunHandle) -> FrameDetails:
    """What the server has of the frame's heartbeats."""
    description = await handle.workflow.describe()
    pending = description.raw_description.pending_activities
    payloads = [payload for one in pending for payload in one.heartbeat_details.payloads]
    return msgspec.json.decode(payloads[0].data, type=FrameDetails) if payloads else FrameDetails()


async def killed_in_the_middle(servers: Addresses, web: Site, sink: str) -> tuple[RunHandle, FrameDetails]:
    """Run the loop; its worker is killed once a heartbeat has told of items, and another goes on."""
    credentials = {name: value for name, value in servers.environment().items() if name.startswith("NOETL_CREDENTIAL_")}
    async with AsyncExitStack() as stack, asyncio.timeout(300):
        first = await stack.enter_async_context(worker_process(servers.temporal, servers.postgres, **credentials))
        handle = await submit(servers, LOOP.replace("URL", web.url).replace("SINK", sink))
        while (known := await told(handle)).ended < 50:
            await asyncio.sleep(0.05)
        calls = web.calls.total()
        while web.calls.total() == calls:
            await asyncio.sleep(0.01)
        first.kill()
        await first.ended()
        assert known.ended < ITEMS
        await stack.enter_async_context(worker_process(servers.temporal, servers.postgres, **credentials))
        report = await handle.result()
        assert report.status == "completed"
        return handle, known


async def test_rows_of_a_killed_frame_stand_once(servers: Addresses, base: Base) -> None:
    """A call whose rows had been committed is taken from the ledger, so only what was under way is called again."""
    async with site() as web:
        handle, _ = await killed_in_the_middle(servers, web, SINK.replace("TABLE", base.table))
        repeated = [path for path, count in web.calls.items() if count > 1]
    assert await base.rows() == list(range(ITEMS))
    assert len(web.calls) == ITEMS
    assert len(repeated) <= AT_ONCE
    client = await connect_temporal(servers.temporal, dsn=servers.postgres)
    await follow_execution(client, servers.postgres, handle.workflow.id)
    assert await audit_execution(servers.postgres, handle.execution_id) == []


async def test_no_item_that_a_heartbeat_told_is_called_again(servers: Addresses) -> None:
    async with site() as web:
        _, known = await killed_in_the_middle(servers, web, "spec: {}")
    assert known.below > 0
    assert {web.calls[f"/size/{item}"] for item in range(known.below)} == {1}
    assert {web.calls[f"/size/{item}"] for item in range(ITEMS)} <= {1, 2}
