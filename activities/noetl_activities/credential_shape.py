"""Where the fields of a credential stand: by themselves, under ``data``, or in an answer of Vault.

``vault kv get -format=json`` prints what Vault and OpenBao answer: the fields under ``data`` (version 1 of the
key-value engine) or under ``data.data`` beside ``metadata`` (version 2), and around that what describes the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from noetl_activities.tool import Credential

__all__ = ["fields_of"]

_OF_THE_ANSWER = frozenset(
    {"request_id", "lease_id", "lease_duration", "renewable", "wrap_info", "warnings", "auth", "mount_type"}
)
_OF_THE_SECRET = frozenset({"metadata"})


def fields_of(given: Mapping[str, Any]) -> Credential:
    """The fields; those beside ``data``, such as ``type``, come before those in it."""
    inner = _map(given.get("data"))
    if inner is None:
        return dict(given)
    innermost = _map(inner.get("data"))
    if innermost is not None:
        inner = {**innermost, **_without(inner, _OF_THE_SECRET)}
    return {**inner, **_without(given, _OF_THE_ANSWER)}


def _map(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _without(fields: Mapping[str, Any], envelope: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "data" and key not in envelope}
