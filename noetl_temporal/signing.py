"""Signatures of what travels through Temporal, under a key that only a deployment's own processes read.

Temporal's dev server has no login: whoever reaches its port can start workflows and activities, and can complete them.
So workers believe only what carries a signature: HMAC-SHA256, cut to 16 bytes, in the metadata of a list's first
payload. It covers

* the place: namespace, workflow id and activity id, so that what was signed for one call says nothing in another;
* the kind: the type of the first value, so that a result never passes for a call;
* the bytes of every payload in the list, so that arguments cannot be combined anew. Of one that is only named, by its
  key in the payload store, the key: that is the digest of the same bytes.

Without a key nothing is signed and nothing is checked, as on a cluster whose Temporal has a login of its own
(dev/decisions/0036).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
from temporalio.api.common.v1 import Payload
from temporalio.api.sdk.v1 import ExternalStorageReference

from noetl_temporal.deployment import DeploymentError
from noetl_temporal.environment import SIGNING_KEY_VARIABLE

__all__ = ["NOWHERE", "SIGNATURE", "Place", "Signer", "read_key", "signing_key_from_environment"]

SIGNATURE = "noetl-signature"
"""The key of the signature in a payload's metadata."""

KEY_BYTES = 32
"""The least that a key file may have."""

_SIGNATURE_BYTES = 16
_REFERENCE = b"json/protobuf", ExternalStorageReference.DESCRIPTOR.full_name.encode()


class Place(NamedTuple):
    """Where a list of values belongs. ``activity`` is empty for what a workflow itself takes or gives."""

    namespace: str = ""
    workflow_id: str = ""
    activity: str = ""


NOWHERE = Place()
"""The place of a value that the SDK converts without telling where it belongs."""


class Signer:
    """Signs and checks under one key."""

    def __init__(self, key: bytes) -> None:
        self._keyed = hmac.new(key, digestmod="sha256")

    def signature(self, place: Place, kind: str, payloads: Sequence[Payload]) -> bytes:
        """Of the list, whose first value is of this kind."""
        code = self._keyed.copy()  # hmac.digest releases the GIL, and waits for it 0.2 ms in a busy worker
        code.update(msgspec.json.encode((*place, kind, [_digest(one) for one in payloads])))
        return code.digest()[:_SIGNATURE_BYTES]

    def fits(self, place: Place, kind: str, payloads: Sequence[Payload]) -> bool:
        """Whether the list carries its signature."""
        carried = payloads[0].metadata.get(SIGNATURE, b"")
        return hmac.compare_digest(carried, self.signature(place, kind, payloads))


def _digest(payload: Payload) -> str:
    """The key that the payload has in the payload store, were it stored without any other metadata. A reference comes
    here only where it is written: what is read are the values.
    """
    encoding = payload.metadata.get("encoding", b"")
    if (encoding, payload.metadata.get("messageType")) == _REFERENCE:
        key: str = msgspec.json.decode(payload.data)["claimData"]["key"]
        return key
    bare = Payload(metadata={"encoding": encoding}, data=payload.data)
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).hexdigest()


def signing_key_from_environment() -> bytes | None:
    """The key in the file that NOETL_SIGNING_KEY_FILE names, None when it names none. Raises DeploymentError."""
    path = os.environ.get(SIGNING_KEY_VARIABLE)
    return read_key(Path(path)) if path else None


def read_key(path: Path) -> bytes:
    """The key in this file. Raises DeploymentError for one that others may read, or that is too short to be a key."""
    try:
        with path.open("rb") as file:
            mode, key = os.fstat(file.fileno()).st_mode, file.read().strip()
    except OSError as error:
        raise DeploymentError(f"cannot read {SIGNING_KEY_VARIABLE} ({path}): {error.strerror}") from error
    if mode & stat.S_IRWXO:
        raise DeploymentError(f"{SIGNING_KEY_VARIABLE} ({path}) can be read by others: run `chmod o= {path}`")
    if len(key) < KEY_BYTES:
        raise DeploymentError(
            f"{SIGNING_KEY_VARIABLE} ({path}) has fewer than {KEY_BYTES} bytes: make one with `openssl rand -hex 32`"
        )
    return key
