"""How values become payloads: typed JSON, the same on the client, every worker and in replay.

With a Postgres, it stores values over 64 KB there (payload_store.py), and the parts that many inputs share
(shared_part.py) regardless of size. All processes of a deployment must use the same Postgres to read each other's
values.

With a signing key, it signs what it writes and verifies what it reads (signed_converter.py). With encryption keys, it
encrypts what is signed (encryption_codec.py), and so does the payload store.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Self, TypeVar, cast

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.common import HeaderCodecBehavior
from temporalio.converter import (
    CompositePayloadConverter,
    DataConverter,
    DefaultFailureConverter,
    DefaultPayloadConverter,
    EncodingPayloadConverter,
    ExternalStorage,
    JSONPlainPayloadConverter,
    PayloadCodec,
    PayloadConverter,
    SerializationContext,
    StorageDriver,
    StorageDriverSelectContext,
    StorageDriverStoreContext,
)

from noetl_temporal.limits import INLINE_BYTES, STORE_FROM_BYTES, STORED_BYTES
from noetl_temporal.machine.call import ToolCall
from noetl_temporal.messages.frame import FrameInput
from noetl_temporal.messages.packed_trail import ENCODINGS, PackedTrail, from_payload, to_payload
from noetl_temporal.messages.shared_part import SharedPart, is_shared, mark_shared
from noetl_temporal.payloads.encrypted_failures import EncryptedFailureConverter
from noetl_temporal.payloads.encryption import DecryptionError, Keyring, is_encrypted
from noetl_temporal.payloads.encryption_codec import EncryptedConverter, EncryptionCodec
from noetl_temporal.payloads.payload_store import DECRYPTION_ERROR, UNREAD_ENCODING, DeferringStore, PayloadStore
from noetl_temporal.payloads.plain_failures import PlainFailureConverter
from noetl_temporal.payloads.signed_converter import SignedConverters, signing_context
from noetl_temporal.payloads.signed_failures import SignedEncryptedFailureConverter, SignedFailureConverter
from noetl_temporal.payloads.signing import Signer, SigningContext, schedule_context

__all__ = [
    "NO_STORAGE_CODE",
    "UnreadValue",
    "belongs_in_store",
    "codec_of_stored",
    "data_converter",
    "header_behavior",
    "is_signed",
    "payload_limit",
    "replay_converter",
    "schedule_converter",
    "verifying_converter",
    "worker_converter",
]

NO_STORAGE_CODE = "TMPRL1105"
"""The code in the SDK's error about a value in the payload store if the process has no payload store."""

SHARED_PARTS = 64
"""The number of shared parts in the LRU cache: each is in memory once for all workflows that have it."""

CACHED_CONVERTERS = 1_000
"""The number of cached data converters, each for one workflow or activity: the SDK asks about ten times per call."""


@dataclasses.dataclass(frozen=True)
class UnreadValue:
    """A value that could not be read yet; ``key`` is its key in the payload store."""

    key: str


class StoreUnavailableError(ConnectionError):
    """A value cannot be read now. The name of this class is in the failures of workflow tasks, where the mirror
    recognises it (incidents.py).
    """


class _UnreadConverter(EncodingPayloadConverter):
    """Converts the payloads of values that could not be read (DeferringStore)."""

    @property
    def encoding(self) -> str:
        return UNREAD_ENCODING

    def to_payload(self, value: Any) -> Payload | None:
        del value
        return None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        """Decode a value. If an activity's input cannot be read now, the activity itself reads it later.

        Raises StoreUnavailableError or DecryptionError, so that the workflow task is retried.
        """
        if type_hint not in (ToolCall, FrameInput):
            if DECRYPTION_ERROR in payload.metadata:
                raise DecryptionError(payload.metadata[DECRYPTION_ERROR].decode())
            raise StoreUnavailableError(f"the payload store is unavailable: {payload.data.decode()} cannot be read")
        return UnreadValue(payload.data.decode())


class _TrailConverter(EncodingPayloadConverter):
    """Converts packed event trails (packed_trail.py). Each compression dictionary has an encoding, and a converter."""

    def __init__(self, dictionary: str) -> None:
        self._dictionary = dictionary

    @property
    def encoding(self) -> str:
        return ENCODINGS[self._dictionary]

    def to_payload(self, value: Any) -> Payload | None:
        has_encoding = isinstance(value, PackedTrail) and value.dictionary == self._dictionary
        return to_payload(value) if has_encoding else None

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        del type_hint
        return from_payload(payload)


class _MsgspecConverter(EncodingPayloadConverter):
    """Converts ``json/plain`` with msgspec: structs with their types, anything else as plain JSON."""

    @property
    def encoding(self) -> str:
        return "json/plain"

    def to_payload(self, value: Any) -> Payload | None:
        payload = Payload(metadata={"encoding": b"json/plain"}, data=msgspec.json.encode(value))
        return mark_shared(payload) if isinstance(value, SharedPart) else payload

    def from_payload(self, payload: Payload, type_hint: type | None = None) -> Any:
        if type_hint is None:
            return msgspec.json.decode(payload.data)
        return (_decode_shared if is_shared(payload) else _decode)(payload.data, type_hint)


def _decode(text: bytes, kind: Any) -> Any:
    return msgspec.json.decode(text, type=kind)


_decode_shared = lru_cache(SHARED_PARTS)(_decode)


_Converter = TypeVar("_Converter", bound=DataConverter)
_STANDARD = DefaultPayloadConverter.default_encoding_payload_converters
_CONVERTERS = (
    *(converter for converter in _STANDARD if not isinstance(converter, JSONPlainPayloadConverter)),
    _UnreadConverter(),
    EncryptedConverter(),
    *map(_TrailConverter, ENCODINGS),
    _MsgspecConverter(),
)


class _PayloadConverter(CompositePayloadConverter):
    """Ignores the serialization context: only signatures depend on it."""

    def with_context(self, context: SerializationContext) -> Self:
        """Return this converter."""
        del context
        return self


_PLAIN = _PayloadConverter(*_CONVERTERS)


def _plain_converter() -> PayloadConverter:
    """Return the cached converter: the SDK asks for one several times per workflow task."""
    return _PLAIN


@dataclasses.dataclass(frozen=True, eq=False)
class _DataConverter(DataConverter):
    """Ignores the context of a value unless values are signed or encrypted, which depend on it.

    The SDK sets the context three times per payload, which would take a tenth of a replay.
    """

    _ignores_context: bool = dataclasses.field(init=False, repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(
            self, "_ignores_context", _signed_converters(self) is None and _encryption_codec(self) is None
        )

    def with_context(self, context: SerializationContext) -> Self:
        return self if self._ignores_context else cast("Self", _with_context(self, signing_context(context)))

    def with_fields(self, fields: Mapping[str, Any]) -> Self:
        """Return a copy with these fields. dataclasses.replace would create all converters anew in each call."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), **fields)
        object.__setattr__(copy, "payload_converter", copy._new_payload_converter())
        return copy

    def _with_store_context(self, store_ctx: StorageDriverStoreContext) -> Self:
        """Return this converter, as the payload store ignores the context; the SDK would copy it for each context."""
        del store_ctx
        return self

    def __hash__(self) -> int:
        """Hash by identity, as some fields of the base class are not hashable."""
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


@lru_cache(CACHED_CONVERTERS)
def _with_context(converter: _DataConverter, context: SigningContext) -> _DataConverter:
    signed_converters, codec = _signed_converters(converter), _encryption_codec(converter)
    fields: dict[str, Any] = {}
    if codec is not None and context.activity:
        fields["payload_codec"] = codec.for_activities()
    if signed_converters is not None:
        fields["payload_converter_class"] = signed_converters.with_context(context)
    return converter.with_fields(fields) if fields else converter


def _encryption_codec(converter: DataConverter) -> EncryptionCodec | None:
    return converter.payload_codec if isinstance(converter.payload_codec, EncryptionCodec) else None


def _signed_converters(converter: DataConverter) -> SignedConverters | None:
    converter_class: object = converter.payload_converter_class
    return converter_class if isinstance(converter_class, SignedConverters) else None


def _with_class(converter: _Converter, converter_class: Callable[[], PayloadConverter]) -> _Converter:
    """Return the converter with this class or callable for payload converters. The SDK calls it without arguments, also
    when it copies the data converter.
    """
    return dataclasses.replace(converter, payload_converter_class=cast("type[PayloadConverter]", converter_class))


def data_converter(
    dsn: str | None = None, signing_key: bytes | None = None, keyring: Keyring | None = None
) -> DataConverter:
    """Return the converter of all clients, workers and mirrors; ``dsn`` is the Postgres for large values."""
    storage = _storage(PayloadStore(dsn, keyring)) if dsn else None
    base = _DataConverter(external_storage=storage, failure_converter_class=PlainFailureConverter)
    converter = _with_class(base, _plain_converter)
    if keyring is not None:
        codec = EncryptionCodec(keyring, _is_never_stored if storage is None else belongs_in_store)
        converter = dataclasses.replace(
            converter, payload_codec=codec, failure_converter_class=EncryptedFailureConverter
        )
    if signing_key is None:
        return converter
    kind = SignedFailureConverter if keyring is None else SignedEncryptedFailureConverter
    converter = dataclasses.replace(converter, failure_converter_class=kind)
    return _with_class(converter, SignedConverters(_plain_converter, Signer(signing_key)))


def _is_never_stored(payload: Payload) -> bool:
    del payload
    return False


def _storage(driver: StorageDriver) -> ExternalStorage:
    def select(context: StorageDriverSelectContext, payload: Payload) -> StorageDriver | None:
        del context
        return driver if belongs_in_store(payload) else None

    return ExternalStorage([driver], driver_selector=select, payload_size_threshold=0)


def belongs_in_store(payload: Payload) -> bool:
    """Whether a payload belongs in the payload store. Encrypted payloads do not: they were too small before that."""
    return (payload.ByteSize() >= STORE_FROM_BYTES or is_shared(payload)) and not is_encrypted(payload)


def codec_of_stored(converter: DataConverter) -> PayloadCodec | None:
    """Return the codec for values that we store without the SDK; None with encryption keys, as the store encrypts."""
    return None if _encryption_codec(converter) is not None else converter.payload_codec


def is_signed(converter: DataConverter) -> bool:
    """Whether what this converter writes is signed."""
    return _signed_converters(converter) is not None


def worker_converter(converter: DataConverter) -> DataConverter:
    """Return the converter of a worker: it decodes a call that is unavailable now to ``UnreadValue``, and requires
    signatures everywhere. It has a codec even without encryption keys, to raise an error for encrypted values: the SDK
    would drop a signal that cannot be decoded.
    """
    signed_converters = _signed_converters(converter)
    if converter.payload_codec is None:
        converter = dataclasses.replace(converter, payload_codec=EncryptionCodec(Keyring({}), _is_never_stored))
    if signed_converters is not None:
        converter = _with_class(converter, dataclasses.replace(signed_converters, is_strict=True))
    storage = converter.external_storage
    if storage is None or not isinstance(storage.drivers[0], PayloadStore):
        return converter
    return dataclasses.replace(converter, external_storage=_storage(DeferringStore(storage.drivers[0])))


def header_behavior(converter: DataConverter) -> HeaderCodecBehavior:
    """Return whether headers are encoded: only those with a codec, which may encrypt, as they carry the log.

    Activities never read them, so they do not decode them.
    """
    has_codec = converter.payload_codec is not None
    return HeaderCodecBehavior.WORKFLOW_ONLY_CODEC if has_codec else HeaderCodecBehavior.NO_CODEC


def schedule_converter(converter: DataConverter, namespace: str, workflow_id: str) -> DataConverter:
    """Return the converter for the input of a schedule. ``workflow_id`` is that of its runs without their time."""
    context = schedule_context(namespace, workflow_id)
    return _with_context(converter, context) if isinstance(converter, _DataConverter) else converter


def verifying_converter(converter: DataConverter) -> DataConverter:
    """Return the converter for a replay whose values are used: it verifies the same signatures as a worker."""
    signed_converters = _signed_converters(converter)
    return (
        converter
        if signed_converters is None
        else _with_class(converter, dataclasses.replace(signed_converters, is_strict=True))
    )


def replay_converter(converter: DataConverter) -> DataConverter:
    """Return the converter for a replay whose values are not used: it verifies no signatures, because they are valid
    only in the namespace of the run.
    """
    if _signed_converters(converter) is None:
        return converter
    plain = _with_class(converter, _plain_converter)
    is_plain = _encryption_codec(converter) is None
    kind = DefaultFailureConverter if is_plain else EncryptedFailureConverter
    return dataclasses.replace(plain, failure_converter_class=kind)


def payload_limit(converter: DataConverter) -> int:
    """Return the maximum size of a value that this converter supports, in bytes."""
    return INLINE_BYTES if converter.external_storage is None else STORED_BYTES
