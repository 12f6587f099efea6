"""Signs payloads in Temporal, with a key that only the processes of a deployment can read.

Temporal's dev server has no login: anyone who can connect to its port can start and complete workflows and activities.
So workers accept only signed payloads. A signature is 16 bytes of keyed BLAKE2b (RFC 7693), in the metadata of the
first payload of a list. It covers

* the context: namespace, workflow id and activity id, so that a signature for one call is invalid in another;
* the kind: the type of the first value, so that a result is never accepted as a call;
* the bytes of every payload in the list, so that arguments cannot be recombined. For a payload in the payload store its
  key is signed, which is the digest of the same bytes.

Without a key nothing is signed or verified, as on a cluster whose Temporal server requires a login
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

__all__ = [
    "NO_CONTEXT",
    "SIGNATURE",
    "Signer",
    "SigningContext",
    "read_key",
    "schedule_context",
    "signing_key_from_environment",
]

SIGNATURE = "noetl-signature"
"""The key of the signature in a payload's metadata."""

MIN_KEY_BYTES = 32
"""The minimum size of a key file."""

_SIGNATURE_BYTES = 16
_REFERENCE = b"json/protobuf", ExternalStorageReference.DESCRIPTOR.full_name.encode()


class SigningContext(NamedTuple):
    """The workflow or activity to which a list of payloads belongs. ``activity`` is empty for the inputs and results of
    a workflow.
    """

    namespace: str = ""
    workflow_id: str = ""
    activity: str = ""


_SCHEDULE = "schedule"
"""The ``activity`` in the context of a schedule's input: no activity has this name."""


def schedule_context(namespace: str, workflow_id: str) -> SigningContext:
    """Return the context of a schedule's input. ``workflow_id`` is that of its runs without the time.

    It differs from the context of every run, so a signature for a run is not valid for a schedule.
    """
    return SigningContext(namespace, workflow_id, _SCHEDULE)


NO_CONTEXT = SigningContext()
"""The context of a value that the SDK converts without one."""


class Signer:
    """Signs and verifies lists of payloads with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key, digest_size=hashlib.blake2b.MAX_KEY_SIZE).digest()

    def signature(self, context: SigningContext, kind: str, payloads: Sequence[Payload]) -> bytes:
        """Return the signature of the list, whose first value is of this kind."""
        message = msgspec.json.encode((*context, kind, [_digest(payload) for payload in payloads]))
        return hashlib.blake2b(message, key=self._key, digest_size=_SIGNATURE_BYTES).digest()

    def is_valid(self, context: SigningContext, kind: str, payloads: Sequence[Payload]) -> bool:
        """Whether the list has a valid signature."""
        signature = payloads[0].metadata.get(SIGNATURE, b"")
        return hmac.compare_digest(signature, self.signature(context, kind, payloads))


def _digest(payload: Payload) -> str:
    """Return the key of the payload in the payload store: for a reference, the key in it; otherwise the key that the
    payload would have there with its encoding as the only metadata. References occur only when payloads are written;
    when they are read, they have been replaced by their values.
    """
    encoding = payload.metadata.get("encoding", b"")
    if (encoding, payload.metadata.get("messageType")) == _REFERENCE:
        key: str = msgspec.json.decode(payload.data)["claimData"]["key"]
        return key
    has_others = len(payload.metadata) > 1
    without_metadata = Payload(metadata={"encoding": encoding}, data=payload.data) if has_others else payload
    return hashlib.sha256(without_metadata.SerializeToString(deterministic=True)).hexdigest()


def signing_key_from_environment() -> bytes | None:
    """Return the key in the file of NOETL_SIGNING_KEY_FILE; None if it is not set. Raises DeploymentError."""
    path = os.environ.get(SIGNING_KEY_VARIABLE)
    return read_key(Path(path)) if path else None


def read_key(path: Path) -> bytes:
    """Return the key in this file. Raises DeploymentError if others can read the file, or if the key is too short."""
    try:
        with path.open("rb") as file:
            mode, key = os.fstat(file.fileno()).st_mode, file.read().strip()
    except OSError as error:
        raise DeploymentError(f"cannot read {SIGNING_KEY_VARIABLE} ({path}): {error.strerror}") from error
    if mode & stat.S_IRWXO:
        raise DeploymentError(f"{SIGNING_KEY_VARIABLE} ({path}) can be read by others: run `chmod o= {path}`")
    if len(key) < MIN_KEY_BYTES:
        raise DeploymentError(
            f"{SIGNING_KEY_VARIABLE} ({path}) has fewer than {MIN_KEY_BYTES} bytes: "
            "make one with `openssl rand -hex 32`"
        )
    return key
