"""When a value that Temporal will store is stored beforehand, and what that costs."""

from __future__ import annotations

from typing import Any

import pytest

from noetl_temporal.limits import STORE_FROM_BYTES
from noetl_temporal.machine.call import ToolReport
from noetl_temporal.payloads.codec import data_converter
from noetl_temporal.payloads.signing import Signer
from noetl_temporal.payloads.value_store import METADATA_BYTES, ValueStore

KEY = b"k" * 32
NOWHERE = "postgresql://127.0.0.1:1/none"


@pytest.fixture
def signed_data(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of the values signed so far."""
    kinds: list[str] = []
    sign = Signer.signature

    def noting(signer: Signer, place: Any, kind: str, payloads: Any) -> bytes:
        kinds.append(kind)
        return sign(signer, place, kind, payloads)

    monkeypatch.setattr(Signer, "signature", noting)
    return kinds


def report(size: int) -> ToolReport:
    return ToolReport({"status": "ok", "result": "x" * size})


async def test_a_short_report_is_neither_signed_nor_stored_beforehand(signed_data: list[str]) -> None:
    await ValueStore(data_converter(NOWHERE, KEY)).store(report(1_000))
    await ValueStore(data_converter(None, KEY)).store(report(STORE_FROM_BYTES))
    assert signed_data == []


async def test_a_report_near_the_limit_is_looked_at_as_temporal_would_see_it(signed_data: list[str]) -> None:
    await ValueStore(data_converter(NOWHERE, KEY)).store(report(STORE_FROM_BYTES - METADATA_BYTES))
    assert signed_data == ["ToolReport"]


async def test_a_large_report_is_stored_as_it_is_signed(signed_data: list[str]) -> None:
    with pytest.raises(ConnectionError):
        await ValueStore(data_converter(NOWHERE, KEY)).store(report(STORE_FROM_BYTES))
    assert signed_data == ["ToolReport"]
