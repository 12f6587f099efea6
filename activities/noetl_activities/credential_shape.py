"""Finds the fields of a credential: at the top level, under ``data``, or in a response of Vault.

``vault kv get -format=json`` prints a response of Vault or OpenBao: the fields are under ``data`` (version 1 of the
key-value engine) or under ``data.data`` next to ``metadata`` (version 2), and other keys describe the response.
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
    """Return the fields of a credential; those next to ``data``, such as ``type``, override those in it."""
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
