"""Encryption of values with AES-256-GCM, under keys that Temporal and Postgres never see (dev/decisions/0060).

An encrypted value is a payload: its metadata name the key, its data are a nonce of 12 bytes, the ciphertext and the
tag. Nonces are random, so one key must not encrypt more than 2^32 values.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from temporalio.api.common.v1 import Payload

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = [
    "ENCRYPTED",
    "ENCRYPTION_KEYS_VARIABLE",
    "KEY_BYTES",
    "DecryptionError",
    "Keyring",
    "is_encrypted",
    "missing_key_error",
]

ENCRYPTION_KEYS_VARIABLE = "NOETL_ENCRYPTION_KEYS"
"""The keys, as id:base64,... The first one encrypts, the others only decrypt."""

ENCRYPTED = b"binary/encrypted"
"""The encoding of an encrypted payload."""

KEY_BYTES = 32

_KEY_ID = "encryption-key-id"
_CIPHER = {"encryption-cipher": b"AES-256-GCM"}
_NONCE_BYTES = 12


class DecryptionError(Exception):
    """A value cannot be decrypted here. The message names the key. The name of this class is in the failures of
    workflow tasks, where the mirror recognises it (incidents.py).
    """


def is_encrypted(payload: Payload) -> bool:
    """Whether this is the result of ``Keyring.encrypt``, under any key."""
    return payload.metadata.get("encoding") == ENCRYPTED


def missing_key_error(payload: Payload) -> DecryptionError:
    """Return the error for an encrypted payload whose key this process does not have."""
    key_id = payload.metadata.get(_KEY_ID, b"").decode("utf-8", "replace")
    return DecryptionError(
        f"the encryption key {key_id!r} is missing here: add it to {ENCRYPTION_KEYS_VARIABLE} of this process, after "
        "the key that it encrypts with"
    )


class Keyring:
    """Keys by id. The first one encrypts, all of them decrypt; with none nothing is encrypted."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._ciphers = {key_id.encode(): _cipher(key) for key_id, key in keys.items()}
        self._first = next(iter(self._ciphers), None)
        self.ids = tuple(keys)
        """The ids of all keys, first that of the key that encrypts."""

    def has_key_for(self, payload: Payload) -> bool:
        """Whether one of the keys has the id in an encrypted payload."""
        return payload.metadata.get(_KEY_ID) in self._ciphers

    def encrypt(self, payload: Payload, place: bytes = b"") -> Payload:
        """Return the payload with its metadata, encrypted. Decrypting it requires the same ``place``."""
        if self._first is None:
            return payload
        nonce = os.urandom(_NONCE_BYTES)
        data = self._ciphers[self._first].encrypt(nonce, payload.SerializeToString(deterministic=True), place)
        metadata = {"encoding": ENCRYPTED, **_CIPHER, _KEY_ID: self._first}
        return Payload(metadata=metadata, data=nonce + data)

    def decrypt(self, payload: Payload, place: bytes = b"") -> Payload:
        """Return the payload that was encrypted. Raises DecryptionError."""
        from cryptography.exceptions import InvalidTag

        if not self.has_key_for(payload):
            raise missing_key_error(payload)
        key_id = payload.metadata[_KEY_ID]
        nonce, data = payload.data[:_NONCE_BYTES], payload.data[_NONCE_BYTES:]
        try:
            return Payload.FromString(self._ciphers[key_id].decrypt(nonce, data, place))
        except (InvalidTag, ValueError):
            raise DecryptionError(
                f"a value cannot be decrypted with the key {key_id.decode()!r}: it was changed, or encrypted with "
                f"another key of this id than the one in {ENCRYPTION_KEYS_VARIABLE} here"
            ) from None


def _cipher(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # 30 ms, for those who encrypt

    return AESGCM(key)
