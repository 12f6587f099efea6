"""References to secrets: strings in place of values that only the called tool resolves (semantics.md 28).

    noetl-secret~billing.token~<SecretReference: JSON in base64url>~<HMAC>~

A reference passes through templates, history and events like any string. It contains all that is needed to resolve it.
Data from outside cannot forge one: the HMAC is made with the key of the run, which templates do not see. Neither URLs
nor JSON escape any of its characters.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

import msgspec

from noetl_compiler.graph import Json

__all__ = ["MARK", "ReferenceMatch", "SecretReference", "format_reference", "references_in"]

MARK = "noetl-secret~"
"""The prefix of every reference."""

_MAC_BYTES = 16
_PATTERN = re.compile(MARK + r"[\w.-]*~([A-Za-z0-9_-]+)~([A-Za-z0-9_-]+)~", re.ASCII)
_NOT_IN_LABEL = re.compile(r"[^\w.-]+", re.ASCII)
_MAX_LABEL_CHARS = 60
"""Characters of the label, which is for people."""


class SecretReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reference to the part at ``path`` of the secret ``name``, which is resolved by its ``kind`` and ``config``. The
    ``form`` json means the JSON encoding of that part.
    """

    name: str
    kind: str
    config: dict[str, Json] = {}
    path: tuple[str | int, ...] = ()
    form: Literal["value", "json"] = "value"

    @property
    def label(self) -> str:
        """``billing.token``, for people."""
        return ".".join(map(str, (self.name, *self.path)))


class ReferenceMatch(NamedTuple):
    """A reference found in a text, from ``start`` to ``end``."""

    start: int
    end: int
    reference: SecretReference


def format_reference(reference: SecretReference, key: str) -> str:
    """Return the text of a reference, which is valid in the run with this key."""
    body = _encode(msgspec.json.encode(reference, order="deterministic"))
    label = _NOT_IN_LABEL.sub("-", reference.label)[:_MAX_LABEL_CHARS]
    return f"{MARK}{label}~{body}~{_encode(_mac(body, key))}~"


def references_in(text: str, key: str) -> Iterator[ReferenceMatch]:
    """Yield the references of the run with this key, in reading order. Others, such as forged ones, are ignored."""
    for match in _PATTERN.finditer(text) if MARK in text else ():
        body, mac = match.groups()
        if not hmac.compare_digest(mac, _encode(_mac(body, key))):
            continue
        try:
            reference = msgspec.json.decode(_decode(body), type=SecretReference)
        except (binascii.Error, msgspec.MsgspecError):
            continue
        yield ReferenceMatch(*match.span(), reference)


def _mac(body: str, key: str) -> bytes:
    return hmac.digest(key.encode(), body.encode(), hashlib.sha256)[:_MAC_BYTES]


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
