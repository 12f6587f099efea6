"""Fetches the fields of a keychain entry from its source (noetl_compiler.language.keychain)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

import msgspec

from noetl_activities.credential_fields import READABLE
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.secrets.fetched import FetchedSecrets
from noetl_activities.tool import Credential, Json
from noetl_compiler.language.keychain import CREDENTIAL_FIELDS, origin_of
from noetl_compiler.secret_references import SecretReference

__all__ = ["Sources", "fields_of_entry"]

_ABOUT = frozenset({"scope", "ttl", "expires", "auto_renew", "description", "provider", "type"})
"""Keys of an entry that are not part of the secret."""


class Sources(Protocol):
    """The sources of secrets in this worker."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def fetched(self) -> FetchedSecrets: ...

    def find(self, name: str, *, for_tools: bool = True) -> Credential: ...


async def fields_of_entry(entry: SecretReference, sources: Sources, *, for_auth: bool = False) -> Credential:
    """Return the secret of an entry, whose config has no references left. Raises ToolError, SecretError.

    Credentials that playbooks must not read are only found ``for_auth``: else a playbook could send the password of a
    database to any server.
    """
    config = entry.config
    match origin_of(entry.kind, config):
        case "credential":
            return _of_credentials(entry, sources, for_auth)
        case "vault":
            return await _of_vault(entry, sources)
        case "token":
            from noetl_activities.secrets.token_fetch import fetch_token  # needs httpx

            key = hashlib.sha256(msgspec.json.encode(config, order="deterministic")).hexdigest()
            return await sources.fetched.get(f"token {key}", lambda: fetch_token(entry.name, config))
        case "playbook":
            return _given(config)
        case "elsewhere":
            return _registered(entry, sources, for_auth)


def _of_credentials(entry: SecretReference, sources: Sources, for_auth: bool) -> Credential:
    """Return all fields of a credential, or one value of each credential in ``map``."""
    wanted = _map(entry.config.get("map"))
    if wanted:
        return {field: _only_value(_found(str(name), sources, False), str(name)) for field, name in wanted.items()}
    named = next((entry.config[key] for key in CREDENTIAL_FIELDS if entry.config.get(key)), entry.name)
    if not isinstance(named, str):
        raise ConfigError(f"the keychain entry {entry.name!r} names no credential: write credential: NAME")
    return _found(named, sources, for_auth)


def _found(name: str, sources: Sources, for_auth: bool) -> Credential:
    credential = sources.find(name, for_tools=for_auth)
    if not for_auth and credential.get("type") != READABLE:
        raise CredentialError(
            f"the credential {name!r} is not of type {READABLE}, so templates cannot read its parts: name it in auth, "
            f"or register what playbooks may read as a credential of type {READABLE}"
        )
    return credential


def _only_value(credential: Credential, name: str) -> Any:
    own = {key: value for key, value in credential.items() if key not in _ABOUT}
    if "value" in own:
        return own["value"]
    if len(own) != 1:
        raise CredentialError(f"the credential {name!r} has {len(own)} values: give it one, named value")
    return next(iter(own.values()))


async def _of_vault(entry: SecretReference, sources: Sources) -> Credential:
    """Return all fields at ``path``; or one field of each path in ``map``, as ``mount/path#field``. The field may be
    omitted if its name is the key in ``map``, or ``value``.
    """
    from noetl_activities.secrets.vault import Vault  # needs httpx

    vault, wanted = Vault(sources.environment, sources.fetched), _map(entry.config.get("map"))
    if not wanted:
        path = entry.config.get("path") or entry.config.get("secret")
        if not isinstance(path, str):
            raise ConfigError(f"the keychain entry {entry.name!r} names no secret: write path: mount/path, or a map")
        return await vault.read(path)
    vault_fields: dict[str, Any] = {}
    for field, place in wanted.items():
        path, _, named = str(place).partition("#")
        fields = await vault.read(path)
        inner = named or (field if field in fields else "value")
        if inner not in fields:
            raise CredentialError(
                f"the secret {path} in Vault has no field {inner!r}: it has {', '.join(sorted(fields))}"
            )
        vault_fields[field] = fields[inner]
    return vault_fields


def _given(config: Mapping[str, Json]) -> Credential:
    """Return the fields in the playbook itself."""
    inner = next((config[key] for key in ("data", "values", "map") if isinstance(config.get(key), dict)), None)
    if inner is not None:
        return cast("dict[str, Any]", inner)
    return {key: value for key, value in config.items() if key not in _ABOUT}


def _registered(entry: SecretReference, sources: Sources, for_auth: bool) -> Credential:
    """Return a credential with the name of the entry, instead of a secret in a store that workers cannot read."""
    wanted = _map(entry.config.get("map"))
    try:
        credential = _found(entry.name, sources, for_auth)
    except CredentialError as error:
        manager = str(entry.config.get("provider") or entry.kind)
        fields = ", ".join(wanted) or ", ".join(map(str, entry.path[:1]))
        raise CredentialError(
            f"the secret {entry.name!r} is in {manager!r}, which workers cannot read: register a credential "
            f"{entry.name!r} of type secret{f' with {fields}' if fields else ''}, or keep it in Vault ({error})"
        ) from None
    is_one_value = len(wanted) == 1 and credential.keys().isdisjoint(wanted)
    return {min(wanted): _only_value(credential, entry.name)} if is_one_value else credential


def _map(value: Json) -> dict[str, Json]:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}
