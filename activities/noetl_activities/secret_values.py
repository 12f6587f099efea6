"""Which values of a credential are secret: all except those of the fields listed here, where only the password and the
query of a URL are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast
from urllib.parse import unquote, unquote_plus

from noetl_activities.errors import CredentialError
from noetl_activities.postgres_dsn import dsn_password
from noetl_activities.tool import Credential

__all__ = ["MAX_CHARACTERS", "MAX_SECRETS", "secrets_of"]

MAX_SECRETS = 64
MAX_CHARACTERS = 16 * 1024
"""Maximum total length of the secrets of a call: its outputs are searched for all of them."""

_SHORTEST_IN_QUERY = 8
"""Shorter values are numbers and words such as "true", which occur in many texts."""

_PLACES = "db_host db_port db_name db_user host port database dbname user schema"
_USES = "type source inject header header_name oauth_credential scope provider service sslmode ssl sslrootcert"
_OF_STORES = "region endpoint project_id client_email auth_uri token_uri universe_domain"
_PUBLIC = frozenset(f"{_PLACES} {_USES} {_OF_STORES}".split())


def secrets_of(credential: Credential, known: frozenset[str]) -> frozenset[str]:
    """The secrets ``known`` and those of the credential. Raises CredentialError if they are too many or too long."""
    secrets = set(known)
    waiting: list[tuple[str, Any]] = list(credential.items())
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(cast("Mapping[str, Any]", value).items())
        elif isinstance(value, list | tuple):
            waiting.extend((name, item) for item in cast("list[Any]", value))
        elif isinstance(value, str | int | float) and not isinstance(value, bool):
            parts = _parts(str(value))
            secrets.update(parts - {str(value)} if name in _PUBLIC else parts)
    secrets.update(_login(credential))
    secrets.discard("")
    if len(secrets) > MAX_SECRETS or sum(map(len, secrets)) > MAX_CHARACTERS:
        raise CredentialError(
            f"the credentials of this call hold over {MAX_SECRETS} values or {MAX_CHARACTERS // 1024} KB: leave out "
            "what the call does not need"
        )
    return frozenset(secrets)


def _parts(value: str) -> set[str]:
    """The value; if it is a URL, also its password and the values in its query."""
    password = dsn_password(value)
    parts = {value} if password is None else {value, password, unquote(password)}
    return parts | _in_query(value)


def _in_query(value: str) -> set[str]:
    """The values in the query, encoded and decoded."""
    if "://" not in value:
        return set()
    fields = (field.partition("=") for field in value.partition("?")[2].partition("#")[0].split("&")[: MAX_SECRETS + 1])
    given = {text for name, _, text in fields if name not in _PUBLIC and len(text) >= _SHORTEST_IN_QUERY}
    return {*given, *map(unquote, given), *map(unquote_plus, given)}


def _login(credential: Credential) -> set[str]:
    """User and password as in Basic authentication: their base64 is secret even if the password is short."""
    user, password = credential.get("username", credential.get("user")), credential.get("password")
    return {f"{user}:{password}"} if user and password else set()
