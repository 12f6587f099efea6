"""Fetches the fields of a keychain entry from its source (noetl_compiler.language.keychain)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol, cast

import msgspec

from noetl_activities.credential_fields import READABLE_TYPE
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.secrets.secret_cache import SecretCache
from noetl_activities.tool import Credential, Json
from noetl_compiler.language.keychain import CREDENTIAL_FIELDS, origin_of
from noetl_compiler.secret_references import SecretReference

__all__ = ["Sources", "fields_of_entry"]

_ENTRY_METADATA = frozenset({"scope", "ttl", "expires", "auto_renew", "description", "provider", "type"})
"""Keys of an entry that are not part of the secret."""


class Sources(Protocol):
    """The sources of secrets in this worker."""

    @property
    def environment(self) -> Mapping[str, str]: ...

    @property
    def secret_cache(self) -> SecretCache: ...

    def find(self, name: str, *, for_tools: bool = True) -> Credential: ...


async def fields_of_entry(entry: SecretReference, sources: Sources, *, for_auth: bool = False) -> Credential:
    """Return the secret of an entry whose config contains no references. Raises ToolError, SecretError.

    Without ``for_auth``, only credentials of the type secret are returned: otherwise a playbook could send the password
    of a database to any server.
    """
    config = entry.config
    match origin_of(entry.kind, config):
        case "credential":
            return _read_credentials(entry, sources, for_auth)
        case "vault":
            return await _read_vault(entry, sources)
        case "token":
            from noetl_activities.secrets.token_fetch import fetch_token  # needs httpx

            key = hashlib.sha256(msgspec.json.encode(config, order="deterministic")).hexdigest()
            return await sources.secret_cache.get(f"token {key}", lambda: fetch_token(entry.name, config))
        case "playbook":
            return _inline_fields(config)
        case "elsewhere":
            return _find_registered(entry, sources, for_auth)


def _read_credentials(entry: SecretReference, sources: Sources, for_auth: bool) -> Credential:
    """Return all fields of a credential, or for each field in ``map`` the value of another credential."""
    mapping = _as_mapping(entry.config.get("map"))
    if mapping:
        return {
            field: _only_value(_find_credential(str(value_name), sources, False), str(value_name))
            for field, value_name in mapping.items()
        }
    name = next((entry.config[key] for key in CREDENTIAL_FIELDS if entry.config.get(key)), entry.name)
    if not isinstance(name, str):
        raise ConfigError(f"the keychain entry {entry.name!r} names no credential: write credential: NAME")
    return _find_credential(name, sources, for_auth)


def _find_credential(name: str, sources: Sources, for_auth: bool) -> Credential:
    credential = sources.find(name, for_tools=for_auth)
    if not for_auth and credential.get("type") != READABLE_TYPE:
        raise CredentialError(
            f"the credential {name!r} is not of type {READABLE_TYPE}, so templates cannot read its parts: name it in "
            f"auth, or register what playbooks may read as a credential of type {READABLE_TYPE}"
        )
    return credential


def _only_value(credential: Credential, name: str) -> Any:
    values = {key: value for key, value in credential.items() if key not in _ENTRY_METADATA}
    if "value" in values:
        return values["value"]
    if len(values) != 1:
        raise CredentialError(f"the credential {name!r} has {len(values)} values: give it one, named value")
    return next(iter(values.values()))


async def _read_vault(entry: SecretReference, sources: Sources) -> Credential:
    """Return all fields of the secret at ``path``, or for each field in ``map`` a field of another secret, as
    ``mount/path#field``. ``#field`` may be omitted if it equals the key in ``map``, or is ``value``.
    """
    from noetl_activities.secrets.vault import Vault  # needs httpx

    vault, mapping = Vault(sources.environment, sources.secret_cache), _as_mapping(entry.config.get("map"))
    if not mapping:
        path = entry.config.get("path") or entry.config.get("secret")
        if not isinstance(path, str):
            raise ConfigError(f"the keychain entry {entry.name!r} names no secret: write path: mount/path, or a map")
        return await vault.read(path)
    vault_fields: dict[str, Any] = {}
    for field, reference in mapping.items():
        path, _, path_in_secret = str(reference).partition("#")
        fields = await vault.read(path)
        selected_field = path_in_secret or (field if field in fields else "value")
        if selected_field not in fields:
            raise CredentialError(
                f"the secret {path} in Vault has no field {selected_field!r}: it has {', '.join(sorted(fields))}"
            )
        vault_fields[field] = fields[selected_field]
    return vault_fields


def _inline_fields(config: Mapping[str, Json]) -> Credential:
    """Return the fields that the playbook itself contains."""
    fields = next((config[key] for key in ("data", "values", "map") if isinstance(config.get(key), dict)), None)
    if fields is not None:
        return cast("dict[str, Any]", fields)
    return {key: value for key, value in config.items() if key not in _ENTRY_METADATA}


def _find_registered(entry: SecretReference, sources: Sources, for_auth: bool) -> Credential:
    """Return the credential with the name of the entry, which replaces a secret in a store that workers cannot read."""
    mapping = _as_mapping(entry.config.get("map"))
    try:
        credential = _find_credential(entry.name, sources, for_auth)
    except CredentialError as error:
        manager = str(entry.config.get("provider") or entry.kind)
        fields = ", ".join(mapping) or ", ".join(map(str, entry.path[:1]))
        raise CredentialError(
            f"the secret {entry.name!r} is in {manager!r}, which workers cannot read: register a credential "
            f"{entry.name!r} of type secret{f' with {fields}' if fields else ''}, or keep it in Vault ({error})"
        ) from None
    is_one_value = len(mapping) == 1 and credential.keys().isdisjoint(mapping)
    return {min(mapping): _only_value(credential, entry.name)} if is_one_value else credential


def _as_mapping(value: Json) -> dict[str, Json]:
    return cast("dict[str, Json]", value) if isinstance(value, dict) else {}
