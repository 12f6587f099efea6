"""Finds the fields of a credential: at the top level, under ``data``, or in a response of Vault.

``vault kv get -format=json`` prints a response of Vault or OpenBao: the fields are under ``data`` (version 1 of the
key-value engine) or under ``data.data`` next to ``metadata`` (version 2), and other keys describe the response.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from noetl_activities.tool import Credential

__all__ = ["credential_fields"]

_RESPONSE_KEYS = frozenset(
    {"request_id", "lease_id", "lease_duration", "renewable", "wrap_info", "warnings", "auth", "mount_type"}
)
_VERSION_KEYS = frozenset({"metadata"})


def credential_fields(document: Mapping[str, Any]) -> Credential:
    """Return the fields of a credential. Those next to ``data``, such as ``type``, override those in it."""
    data = _as_mapping(document.get("data"))
    if data is None:
        return dict(document)
    versioned_data = _as_mapping(data.get("data"))
    if versioned_data is not None:
        data = {**versioned_data, **_without(data, _VERSION_KEYS)}
    return {**data, **_without(document, _RESPONSE_KEYS)}


def _as_mapping(value: Any) -> dict[str, Any] | None:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


def _without(fields: Mapping[str, Any], envelope: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != "data" and key not in envelope}
