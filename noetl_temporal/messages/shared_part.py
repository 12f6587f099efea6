"""Parts of a workflow's input that many workflows have in common: a playbook's graph, a loop's step.

Each is a separate argument, and so a separate payload. If there is a payload store, it is stored there whatever its
size, once for all workflows, whose histories have its key (dev/decisions/0018).
"""

from __future__ import annotations

import msgspec
from temporalio.api.common.v1 import Payload

__all__ = ["SharedPart", "is_shared", "mark_shared"]

_MARK = "noetl"
_SHARED = b"shared"


class SharedPart(msgspec.Struct, frozen=True):
    """The base class of shared parts."""


def mark_shared(payload: Payload) -> Payload:
    """Mark the payload, in its metadata, as a shared part."""
    payload.metadata[_MARK] = _SHARED
    return payload


def is_shared(payload: Payload) -> bool:
    """Whether the payload is marked."""
    return payload.metadata.get(_MARK) == _SHARED
