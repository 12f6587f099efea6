"""The types of credentials and their fields. Messages contain no values except types."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

__all__ = ["FIELDS", "METADATA", "READABLE", "field_problem", "foreign_type_problem", "unknown_keys"]

_KEYS = frozenset(
    {"access_key_id", "key_id", "aws_access_key_id"}
    | {"secret_access_key", "secret_key", "secret", "aws_secret_access_key"}
    | {"region", "endpoint", "scope"}
)
"""The keys of an object store, and where it is."""

_GOOGLE = frozenset(
    {"project_id", "private_key_id", "private_key", "client_email", "client_id", "auth_uri", "token_uri"}
    | {"auth_provider_x509_cert_url", "client_x509_cert_url", "universe_domain"}
    | {"client_secret", "refresh_token", "account", "quota_project_id"}
)
"""The fields of Google's key files: those of a service account, and those of a person, which no tool can use."""

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
        "s3": _KEYS | {"session_token", "aws_session_token"},
        "gcs": _KEYS | {"service_account_json", "service_account_key", "token", "access_token"} | _GOOGLE,
    }
)
"""Type -> the fields that the tools read."""

READABLE = "secret"
"""The type of credentials that playbooks may read through ``keychain``. They may have any fields."""

METADATA = frozenset({"description", "tags"})
"""Fields that only document the credential."""

_ALIASES = {
    "apikey": "api_key",
    **dict.fromkeys(("gcs_hmac", "gcp", "google_oauth", "google_service_account", "service_account"), "gcs"),
}
_SHOWN = 40
"""Maximum length of a type in a message."""


def field_problem(fields: Mapping[Any, Any]) -> str | None:
    """The problem with the fields of a credential; None if there is none. Without a type, the fields of every type are
    allowed; for an unknown type, any fields are.
    """
    given = fields.get("type")
    if given is None:
        return unknown_keys(fields, {key for keys in FIELDS.values() for key in keys})
    if not isinstance(given, str):
        return f"its type is not text; allowed: {', '.join(FIELDS)}"
    allowed = _fields_of(given)
    return None if allowed is None else unknown_keys(fields, allowed)


def foreign_type_problem(fields: Mapping[Any, Any]) -> str | None:
    """Why a credential of an unknown type cannot be used; None for known types. A file may have some for other
    programs.
    """
    given = fields.get("type")
    if not isinstance(given, str) or _fields_of(given) is not None:
        return None
    near = difflib.get_close_matches(given.lower(), FIELDS, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return f"is of type {given[:_SHOWN]!r}, which no installed tool uses{hint}; known: {', '.join(FIELDS)}"


def _fields_of(given: str) -> frozenset[str] | None:
    name = given.lower()
    return FIELDS.get(_ALIASES.get(name, name))


def unknown_keys(fields: Mapping[Any, Any], allowed: Iterable[str]) -> str | None:
    """``unknown key "tokn" (did you mean "token"?); allowed: ...``."""
    known = {*allowed, *METADATA, "type"}
    unknown = next((key for key in fields if key not in known), None)
    if unknown is None:
        return None
    near = difflib.get_close_matches(str(unknown), known, n=1)
    hint = f' (did you mean "{near[0]}"?)' if near else ""
    return f'unknown key "{unknown}"{hint}; allowed: {", ".join(sorted(known))}'
