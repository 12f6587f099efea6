"""Credentials by name (semantics.md 28), only in the process that runs the tool.

A name is looked up in the credentials file (credentials_file.py), then in the environment
(``NOETL_CREDENTIAL_<NAME>``, JSON).
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias, cast

import msgspec

from noetl_activities.credential_fields import foreign_type_error
from noetl_activities.credential_shape import credential_fields
from noetl_activities.credentials_file import read_credentials, unreadable_file
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.scrub import scrub, truncate
from noetl_activities.secret_values import secrets_of
from noetl_activities.secrets.entries import fields_of_entry
from noetl_activities.secrets.resolve import leaf_values, may_contain_reference, replace_references, select_part
from noetl_activities.secrets.secret_cache import SecretCache
from noetl_activities.tool import Credential, Json
from noetl_activities.variables import CREDENTIAL_PREFIX
from noetl_compiler.language.credentials import KEYS_BESIDE_NAME, NAME_KEYS
from noetl_compiler.secret_references import SecretReference, format_reference, references_in

__all__ = ["CredentialSource", "Credentials", "credential_name"]

_MAX_HINT_NAMES = 10

Fields: TypeAlias = dict[str, Any]


class CredentialSource:
    """Looks up credentials by name; ``environment`` is that of the process by default."""

    def __init__(self, file: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self.environment = os.environ if environment is None else environment
        self.secret_cache = SecretCache()
        self._file = file
        self._cached: tuple[float, Mapping[str, Credential]] | None = None

    def find(self, name: str, *, for_tools: bool = True) -> Credential:
        """Return the credential with this name. Raises CredentialError.

        ``for_tools``: refuse a credential of the file whose type no tool uses, as other programs may share the file.
        """
        credential = self._from_file().get(name)
        if credential is not None:
            error_text = foreign_type_error(credential) if for_tools else None
            if error_text:
                raise CredentialError(f"the credential {name!r} of {self._file} {error_text}")
            return credential
        variable = CREDENTIAL_PREFIX + re.sub(r"\W", "_", name).upper()
        if variable not in self.environment:
            file = f"the file {self._file}" if self._file else "the file named by --credentials or NOETL_CREDENTIALS"
            raise CredentialError(
                f"no credential {name!r}{self._hint(name)}: add it to {file}, or set {variable} for the worker"
            )
        return _from_json(variable, self.environment[variable])

    def _hint(self, name: str) -> str:
        """Return `` (did you mean 'pg_local'?)``, else a list of known names. Contains no values."""
        variables = (variable for variable in self.environment if variable.startswith(CREDENTIAL_PREFIX))
        variable_names = {variable.removeprefix(CREDENTIAL_PREFIX).lower() for variable in variables}
        known_names = sorted({*self._from_file(), *variable_names})
        matches = difflib.get_close_matches(name, known_names, n=1)
        if matches:
            return f" (did you mean {matches[0]!r}?)"
        return f" (there are {', '.join(known_names[:_MAX_HINT_NAMES])})" if known_names else ""

    def _from_file(self) -> Mapping[str, Credential]:
        """Return the credentials in the file. It is read again if it was modified."""
        if self._file is None:
            return {}
        try:
            modification_time = self._file.stat().st_mtime
            if self._cached is None or self._cached[0] != modification_time:
                self._cached = (modification_time, read_credentials(self._file))
        except OSError as error:
            raise unreadable_file(self._file, error) from error
        return self._cached[1]


def _from_json(variable: str, text: str) -> Credential:
    try:
        fields = json.loads(text)
    except ValueError as error:
        if isinstance(error, json.JSONDecodeError):
            reason = f"line {error.lineno}, column {error.colno}"
        else:
            reason = "a number has too many digits"
        raise CredentialError(f'{variable} is not JSON ({reason}): write {{"type": "postgres", ...}}') from None
    if not isinstance(fields, dict):
        raise CredentialError(f"{variable} is not a JSON object")
    return credential_fields(cast("Fields", fields))


def credential_name(auth: Json) -> str | None:
    """Return the name of the credential that ``auth`` refers to; None if it contains the fields themselves."""
    if isinstance(auth, dict):
        return _name_of(_strip_alias(cast("Fields", auth)))
    return auth if isinstance(auth, str) else None


def _strip_alias(auth: Fields) -> Fields:
    """Return ``{type, key}`` for ``{pg: {type, key}}``, where ``pg`` is an alias of the credential."""
    only_value = next(iter(auth.values())) if len(auth) == 1 else None
    return cast("Fields", only_value) if isinstance(only_value, dict) else auth


def _name_of(auth: Fields) -> str | None:
    return next((auth[key] for key in NAME_KEYS if isinstance(auth.get(key), str)), None)


class Credentials:
    """Resolves the credentials and secrets of one call, and masks all secret values that it has returned.

    ``key`` authenticates the references to secrets in the call; without a key there are none.
    """

    def __init__(self, source: CredentialSource, key: str = "") -> None:
        self._source = source
        self._key = key
        self._secrets: frozenset[str] = frozenset()

    async def resolve(self, auth: Json) -> Credential:
        """Resolve a name, ``{type, credential|key, ...}``, a reference to a secret, or the fields themselves.

        A playbook cannot override the fields of a named credential, such as the host: it could then send the password
        to another server. Raises CredentialError, SecretError.
        """
        if isinstance(auth, str):
            credential = await self._resolve_reference(auth) or self._source.find(auth)
        elif isinstance(auth, dict):
            credential = await self._resolve_mapping(_strip_alias(cast("Fields", auth)))
        else:
            raise CredentialError("auth is neither a string nor a mapping: write the name of a credential")
        self._secrets = secrets_of(credential, self._secrets)
        return credential

    async def with_secrets(self, value: Json, kind: str = "") -> Json:
        """Return the value with references replaced by their secrets.

        ``kind`` is the kind of the tool if the value is its config: see replace_references.
        Raises CredentialError, SecretError.
        """
        return await replace_references(value, self._key, self._secret_value, kind) if self._key else value

    async def reference(self, name: str, kind: str, config: dict[str, Json]) -> str:
        """Return a reference to an existing secret. Raises ConfigError, CredentialError, SecretError."""
        if not self._key:
            raise ConfigError("this call may not refer to secrets")
        entry = SecretReference(name, kind, config, ("value",))
        select_part(await fields_of_entry(entry, self._source), entry)  # raises if the secret does not exist
        return format_reference(entry, self._key)

    async def _secret_value(self, reference: SecretReference, *, for_auth: bool = False) -> Json:
        """Return the value of a secret. Only with ``for_auth`` may it be in a credential that templates cannot read."""
        config: Json = await self.with_secrets(reference.config)
        entry = msgspec.structs.replace(reference, config=config)
        value = select_part(await fields_of_entry(entry, self._source, for_auth=for_auth), reference)
        self._secrets = secrets_of({"value": leaf_values(value)}, self._secrets)
        return value

    async def _resolve_reference(self, text: str) -> Credential | None:
        """Return the secret for a text that is a single reference; None for other texts."""
        if not self._key:
            return None
        match = next(references_in(text, self._key), None)
        if match is None or (match.start, match.end) != (0, len(text)):
            return None
        value = await self._secret_value(match.reference, for_auth=True)
        if not isinstance(value, dict):
            label = match.reference.label
            raise CredentialError(f'auth is the single value "{label}": write auth: {{type: bearer, token: ...}}')
        return cast("Fields", value)

    async def _resolve_mapping(self, auth: Fields) -> Credential:
        name = _name_of(auth)
        if name is None or (self._key and may_contain_reference(name)):
            return cast("Fields", await self.with_secrets(auth))
        credential = self._source.find(name)
        overrides = {key: value for key, value in auth.items() if key not in NAME_KEYS}
        forbidden = sorted(key for key in overrides if key not in KEYS_BESIDE_NAME)
        if forbidden:
            raise CredentialError(
                f"auth names the credential {name!r} and sets {', '.join(forbidden)}: a playbook cannot change a "
                "credential. Remove it, or register another credential"
            )
        if overrides.get("type") and credential.get("type") and overrides["type"] != credential["type"]:
            raise CredentialError(f"the credential {name!r} has another type than the one in auth: remove the type")
        return {**credential, **overrides}

    @property
    def has_secrets(self) -> bool:
        """Whether a secret was returned."""
        return bool(self._secrets)

    @property
    def has_multiline_secret(self) -> bool:
        """Whether a returned secret has several lines."""
        return any("\n" in secret for secret in self._secrets)

    def mask_secrets(self, value: Any) -> Any:
        """Return the JSON value with all returned secrets masked."""
        return scrub(value, self._secrets)

    def truncate(self, text: str, limit: int) -> str:
        """Return the first ``limit`` characters of the text, with all returned secrets masked: see scrub.truncate."""
        return truncate(text, limit, self._secrets)
