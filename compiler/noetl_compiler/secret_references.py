"""References to secrets: texts in place of values that only the called tool knows (semantics.md 28).

    noetl-secret~billing.token~<what it refers to: JSON in base64url>~<HMAC>~

A reference passes through templates, history and events like any text. It says itself what it refers to, so whoever has
it needs nothing else of the playbook. Data from outside cannot refer to anything: the HMAC is made with the key of the
run, which templates do not see. All characters are such that neither URLs nor JSON escape them.
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

__all__ = ["MARK", "FoundReference", "SecretReference", "reference_text", "references_in"]

MARK = "noetl-secret~"
"""What every reference begins with."""

_MAC_BYTES = 16
_SHAPE = re.compile(MARK + r"[\w.-]*~([A-Za-z0-9_-]+)~([A-Za-z0-9_-]+)~", re.ASCII)
_UNSHOWN = re.compile(r"[^\w.-]+", re.ASCII)
_SHOWN = 60
"""Characters of the label, which is for people."""


class SecretReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """The part at ``path`` of the secret ``name``, which is found as its ``kind`` and ``config`` say. In the ``form``
    json it is the JSON of that part.
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


class FoundReference(NamedTuple):
    """A reference in a text, from ``start`` to ``end``."""

    start: int
    end: int
    reference: SecretReference


def reference_text(reference: SecretReference, key: str) -> str:
    """Return the reference as a text that is valid in the run with this key."""
    body = _encoded(msgspec.json.encode(reference, order="deterministic"))
    label = _UNSHOWN.sub("-", reference.label)[:_SHOWN]
    return f"{MARK}{label}~{body}~{_encoded(_mac(body, key))}~"


def references_in(text: str, key: str) -> Iterator[FoundReference]:
    """Yield the references of the run with this key, in reading order. What only looks like one is text."""
    for match in _SHAPE.finditer(text) if MARK in text else ():
        body, mac = match.groups()
        if not hmac.compare_digest(mac, _encoded(_mac(body, key))):
            continue
        try:
            found = msgspec.json.decode(_decoded(body), type=SecretReference)
        except (binascii.Error, msgspec.MsgspecError):
            continue
        yield FoundReference(*match.span(), found)


def _mac(body: str, key: str) -> bytes:
    return hmac.digest(key.encode(), body.encode(), hashlib.sha256)[:_MAC_BYTES]


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
