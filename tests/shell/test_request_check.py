"""A payload that no run can have is refused before anything is sent, with its place."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.client import NoetlClient, PayloadError
from noetl_temporal.ids import new_execution_id
from noetl_temporal.limits import INLINE_BYTES, STORED_BYTES
from noetl_temporal.runs import UnknownRunError
from noetl_temporal.stack.addresses import Addresses
from tests.shell.test_sub_playbooks import book

HALF = "\ud83d"
PLAYBOOK = book("tests/payload", "workflow:\n  - {step: start, tool: {kind: noop}}\n")


@pytest.mark.parametrize(
    ("payload", "place"),
    [
        ({"city": HALF}, "payload.city"),
        ({"cities": ["Oslo", {"name": f"x{HALF}"}]}, "payload.cities[1].name"),
        ({"cities": {HALF: 1}}, "a name in payload.cities"),
        ({HALF: 1}, "a name in payload"),
    ],
)
async def test_half_a_character_is_refused_with_its_place(servers: Addresses, payload: Any, place: str) -> None:
    client = await NoetlClient.connect(servers.temporal, tools=["noop"])
    execution_id = new_execution_id()
    with pytest.raises(PayloadError) as failure:
        await client.submit(PLAYBOOK, payload, execution_id=execution_id)
    assert str(failure.value).startswith(f"{place} has a lone surrogate")
    with pytest.raises(UnknownRunError):
        await client.find(execution_id)


@pytest.mark.parametrize(("has_store", "limit"), [(True, STORED_BYTES), (False, INLINE_BYTES)])
async def test_a_payload_that_is_too_large_is_refused(servers: Addresses, has_store: bool, limit: int) -> None:
    dsn = servers.postgres if has_store else None
    client = await NoetlClient.connect(servers.temporal, dsn=dsn, tools=["noop"])
    with pytest.raises(
        ValueError, match=f"the payload has 60,000,0.. bytes as JSON, over {limit:,}: keep data in a file"
    ):
        await client.submit(PLAYBOOK, {"message": "x" * 60_000_000})
