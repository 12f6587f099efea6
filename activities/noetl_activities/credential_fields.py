"""The types of credentials and their fields. Messages contain no values except types."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

__all__ = [
    "FIELDS",
    "METADATA",
    "READABLE_TYPE",
    "field_error",
    "first_field",
    "foreign_type_error",
    "unknown_keys_error",
]

_OBJECT_STORE_FIELDS = frozenset(
    {"access_key_id", "key_id", "aws_access_key_id"}
    | {"secret_access_key", "secret_key", "secret", "aws_secret_access_key"}
    | {"region", "endpoint", "scope"}
)
"""The fields for the access keys and the location of an object store."""

_GOOGLE_FIELDS = frozenset(
    {"project_id", "private_key_id", "private_key", "client_email", "client_id", "auth_uri", "token_uri"}
    | {"auth_provider_x509_cert_url", "client_x509_cert_url", "universe_domain"}
    | {"client_secret", "refresh_token", "account", "quota_project_id"}
)
"""The fields of Google's key files. Those for users are accepted, but no tool can use them."""

FIELDS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "postgres": frozenset(
            {"dsn", "connection_string", "url", "db_host", "host", "db_port", "port", "db_user", "user", "username"}
            | {"db_password", "password", "db_name", "database", "dbname"}
            | {"schema", "sslmode", "ssl", "sslrootcert"}
        ),
        "bearer": frozenset({"token", "access_token", "api_key", "value"}),
        "basic": frozenset({"username", "user", "password"}),
        "api_key": frozenset({"api_key", "key", "value", "token", "header", "header_name"}),
        "nats": frozenset(
            {"nats_url", "url", "servers", "nats_user", "user", "username", "nats_password", "password", "token"}
        ),
        "snowflake": frozenset(
            {"sf_account", "account", "sf_user", "user", "username", "sf_password", "password", "sf_role", "role"}
            | {"sf_warehouse", "warehouse", "sf_database", "database", "sf_schema", "schema"}
            | {"sf_host", "host", "sf_port", "port", "sf_protocol", "protocol"}
        ),
        "ibm_quantum": frozenset({"token", "instance", "channel"}),
        "s3": _OBJECT_STORE_FIELDS | {"session_token", "aws_session_token"},
        "gcs": _OBJECT_STORE_FIELDS
        | {"service_account_json", "service_account_key", "token", "access_token"}
        | _GOOGLE_FIELDS,
    }
)
"""Type -> the fields that the tools read."""

READABLE_TYPE = "secret"
"""The type of credentials that playbooks may read through ``keychain``. They may have any fields."""

METADATA = frozenset({"description", "tags"})
"""Fields that only document the credential."""

_ALIASES = {
    "apikey": "api_key",
    **dict.fromkeys(("gcs_hmac", "gcp", "google_oauth", "google_service_account", "service_account"), "gcs"),
}
_MAX_TYPE_CHARS = 40
"""Maximum length of a type in a message."""


def first_field(credential: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the value of the first of these fields that is set, as text; None if none is set."""
    return next((str(credential[name]) for name in names if credential.get(name)), None)


def field_error(fields: Mapping[Any, Any]) -> str | None:
    """Return what is wrong with the fields of a credential; None if they are valid.

    Without a type, the fields of all types are allowed. With an unknown type, any field is.
    """
    type_ = fields.get("type")
    if type_ is None:
        return unknown_keys_error(fields, {key for keys in FIELDS.values() for key in keys})
    if not isinstance(type_, str):
        return f"its type is not a string; allowed: {', '.join(FIELDS)}"
    allowed_keys = _fields_of_type(type_)
    return None if allowed_keys is None else unknown_keys_error(fields, allowed_keys)


def foreign_type_error(fields: Mapping[Any, Any]) -> str | None:
    """Return why a credential of an unknown type cannot be used; None for known types.

    Such a credential may be for another program that shares the file.
    """
    type_ = fields.get("type")
    if not isinstance(type_, str) or _fields_of_type(type_) is not None:
        return None
    matches = difflib.get_close_matches(type_.lower(), FIELDS, n=1)
    hint = f" (did you mean {matches[0]!r}?)" if matches else ""
    return f"is of type {type_[:_MAX_TYPE_CHARS]!r}, which no installed tool uses{hint}; known: {', '.join(FIELDS)}"


def _fields_of_type(type_: str) -> frozenset[str] | None:
    name = type_.lower()
    return FIELDS.get(_ALIASES.get(name, name))


def unknown_keys_error(fields: Mapping[Any, Any], allowed_keys: Iterable[str]) -> str | None:
    """Return ``unknown key "tokn" (did you mean "token"?); allowed: ...``; None if all keys are allowed."""
    known_keys = {*allowed_keys, *METADATA, "type"}
    unknown = next((key for key in fields if key not in known_keys), None)
    if unknown is None:
        return None
    matches = difflib.get_close_matches(str(unknown), known_keys, n=1)
    hint = f' (did you mean "{matches[0]}"?)' if matches else ""
    return f'unknown key "{unknown}"{hint}; allowed: {", ".join(sorted(known_keys))}'
