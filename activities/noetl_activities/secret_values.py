"""Selects the secret values of a credential: all values, except those of the public fields listed here. In a URL in a
public field, the password and the values of the query are secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote, unquote_plus

from noetl_activities.errors import CredentialError
from noetl_activities.postgres.dsn import dsn_password
from noetl_activities.tool import Credential

__all__ = ["MAX_CHARACTERS", "MAX_SECRETS", "secrets_of"]

MAX_SECRETS = 64
MAX_CHARACTERS = 16 * 1024
"""Maximum total length of the secrets of a call, because all its outputs are searched for them."""

_MIN_QUERY_CHARS = 8
"""Shorter values are often numbers or words such as "true", which occur in many texts."""

_LOCATION_FIELDS = "db_host db_port db_name db_user host port database dbname user schema"
_USE_FIELDS = "type source inject header header_name oauth_credential scope provider service sslmode ssl sslrootcert"
_STORE_FIELDS = "region endpoint project_id client_email auth_uri token_uri universe_domain"
_PUBLIC_FIELDS = frozenset(f"{_LOCATION_FIELDS} {_USE_FIELDS} {_STORE_FIELDS}".split())


def secrets_of(credential: Credential, known_secrets: frozenset[str]) -> frozenset[str]:
    """Return the ``known_secrets`` and those of the credential. Raises CredentialError if they are too many or too
    long.
    """
    secrets = set(known_secrets)
    pending: list[tuple[str, Any]] = list(credential.items())
    while pending:
        name, value = pending.pop()
        if isinstance(value, Mapping):
            pending.extend(cast("Mapping[str, Any]", value).items())
        elif isinstance(value, list | tuple):
            pending.extend((name, item) for item in cast("list[Any]", value))
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            parts = _secret_parts(str(value))
            secrets.update(parts - {str(value)} if name in _PUBLIC_FIELDS else parts)
    secrets.update(_basic_login(credential))
    secrets.discard("")
    if len(secrets) > MAX_SECRETS or sum(map(len, secrets)) > MAX_CHARACTERS:
        raise CredentialError(
            f"the credentials of this call hold over {MAX_SECRETS} values or {MAX_CHARACTERS // 1024} KB: leave out "
            "what the call does not need"
        )
    return frozenset(secrets)


def _secret_parts(value: str) -> set[str]:
    """Return the value; if it is a URL, also its password and the values in its query."""
    password = dsn_password(value)
    parts = {value} if password is None else {value, password, unquote(password)}
    return parts | _query_values(value)


def _query_values(value: str) -> set[str]:
    """Return the values in the query of a URL, encoded and decoded."""
    if "://" not in value:
        return set()
    fields = (field.partition("=") for field in value.partition("?")[2].partition("#")[0].split("&")[: MAX_SECRETS + 1])
    values = {text for name, _, text in fields if name not in _PUBLIC_FIELDS and len(text) >= _MIN_QUERY_CHARS}
    return {*values, *map(unquote, values), *map(unquote_plus, values)}


def _basic_login(credential: Credential) -> set[str]:
    """Return ``user:password`` as in Basic authentication: its base64 is secret even if the password is short."""
    user, password = credential.get("username", credential.get("user")), credential.get("password")
    return {f"{user}:{password}"} if user and password else set()
