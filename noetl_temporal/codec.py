"""How values become payloads: typed JSON, the same on the client, every worker and in replay."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    JSONPlainPayloadConverter,
)

from noetl_temporal.claim_check import claim_check

__all__ = ["data_converter"]


class _MsgspecConverter(EncodingPayloadConverter):
    """``json/plain`` by msgspec: our structs are read with their types, anything else as plain JSON."""

    @property
    def encoding(self) -> str:
        return "json/plain"

    def to_payload(self, value: Any) -> Payload | None:
        return Payload(metadata={"encoding": b"json/plain"}, data=msgspec.json.encode(value))

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        kind: Any = Any if type_hint is None else type_hint
        return msgspec.json.decode(payload.data, type=kind)


class _PayloadConverter(CompositePayloadConverter):
    def __init__(self) -> None:
        standard = DefaultPayloadConverter.default_encoding_payload_converters
        kept = (one for one in standard if not isinstance(one, JSONPlainPayloadConverter))
        super().__init__(*kept, _MsgspecConverter())


def data_converter(dsn: str | None = None) -> DataConverter:
    """The converter of every client and worker of this project; with ``dsn``, large values lie in that Postgres."""
    storage = claim_check(dsn) if dsn else None
    return dataclasses.replace(
        DataConverter.default, payload_converter_class=_PayloadConverter, external_storage=storage
    )
