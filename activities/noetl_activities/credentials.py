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

from noetl_activities.credential_fields import foreign_type_problem
from noetl_activities.credential_shape import fields_of
from noetl_activities.credentials_file import read_credentials, unreadable
from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.scrub import cut, scrub
from noetl_activities.secret_values import secrets_of
from noetl_activities.secrets.entries import fields_of_entry
from noetl_activities.secrets.fetched import FetchedSecrets
from noetl_activities.secrets.resolve import part_at, refers, values_in, with_values
from noetl_activities.tool import Credential, Json
from noetl_activities.variables import CREDENTIAL_PREFIX
from noetl_compiler.secret_references import SecretReference, format_reference, references_in

__all__ = ["BESIDE_A_NAME", "NAMES", "CredentialSource", "Credentials", "credential_name"]

_MOST_NAMED = 10
NAMES = ("credential", "key", "name")
BESIDE_A_NAME = frozenset(
    {"type", "source", "inject", "header", "header_name", "oauth_credential", "provider", "schema", "scope"}
)
"""Fields that a playbook may set next to a credential's name: how it is used, but not the server or the account."""

Fields: TypeAlias = dict[str, Any]


class CredentialSource:
    """Looks up credentials by name; ``environment`` is that of the process by default."""

    def __init__(self, file: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self.environment = os.environ if environment is None else environment
        self.fetched = FetchedSecrets()
        self._file = file
        self._read: tuple[float, Mapping[str, Credential]] | None = None

    def find(self, name: str, *, for_tools: bool = True) -> Credential:
        """Return the credential of a name; unless ``for_tools``, of any type. Raises CredentialError."""
        credential = self._from_file().get(name)
        if credential is not None:
            problem = foreign_type_problem(credential) if for_tools else None
            if problem:
                raise CredentialError(f"the credential {name!r} of {self._file} {problem}")
            return credential
        variable = CREDENTIAL_PREFIX + re.sub(r"\W", "_", name).upper()
        if variable not in self.environment:
            where = f"the file {self._file}" if self._file else "the file named by --credentials or NOETL_CREDENTIALS"
            raise CredentialError(
                f"no credential {name!r}{self._hint(name)}: add it to {where}, or set {variable} for the worker"
            )
        return _from_json(variable, self.environment[variable])

    def _hint(self, name: str) -> str:
        """Return a hint with names, never values: `` (did you mean 'pg_local'?)``, else the known names."""
        variables = (variable for variable in self.environment if variable.startswith(CREDENTIAL_PREFIX))
        named = {variable.removeprefix(CREDENTIAL_PREFIX).lower() for variable in variables}
        known = sorted({*self._from_file(), *named})
        near = difflib.get_close_matches(name, known, n=1)
        if near:
            return f" (did you mean {near[0]!r}?)"
        return f" (there are {', '.join(known[:_MOST_NAMED])})" if known else ""

    def _from_file(self) -> Mapping[str, Credential]:
        """Return the credentials in the file, which is read again if it has changed."""
        if self._file is None:
            return {}
        try:
            changed = self._file.stat().st_mtime
            if self._read is None or self._read[0] != changed:
                self._read = (changed, read_credentials(self._file))
        except OSError as error:
            raise unreadable(self._file, error) from error
        return self._read[1]


def _from_json(variable: str, text: str) -> Credential:
    try:
        fields = json.loads(text)
    except ValueError as error:
        place = f"line {error.lineno}, column {error.colno}" if isinstance(error, json.JSONDecodeError) else "it"
        raise CredentialError(f'{variable} is not JSON ({place}): write {{"type": "postgres", ...}}') from None
    if not isinstance(fields, dict):
        raise CredentialError(f"{variable} is not a JSON object")
    return fields_of(cast("Fields", fields))


def credential_name(auth: Json) -> str | None:
    """Return the name of the credential that ``auth`` refers to; None if it contains the fields themselves."""
    if isinstance(auth, dict):
        return _name_in(_unaliased(cast("Fields", auth)))
    return auth if isinstance(auth, str) else None


def _unaliased(auth: Fields) -> Fields:
    """``{pg: {type, key}}`` is one credential under an alias."""
    only = next(iter(auth.values())) if len(auth) == 1 else None
    return cast("Fields", only) if isinstance(only, dict) else auth


def _name_in(auth: Fields) -> str | None:
    return next((auth[key] for key in NAMES if isinstance(auth.get(key), str)), None)


class Credentials:
    """The credentials and secrets of one call. All secret values that it returns are masked in the outputs of the
    activity.

    ``key`` is that of the references to secrets in the call; without a key there are none.
    """

    def __init__(self, source: CredentialSource, key: str = "") -> None:
        self._source = source
        self._key = key
        self._secrets: frozenset[str] = frozenset()

    async def resolve(self, auth: Json) -> Credential:
        """Resolve a name, ``{type, credential|key, ...}``, a reference to a secret, or the fields themselves. The
        fields of a named credential cannot be overridden: else a playbook could send its password to another host.
        Raises CredentialError, SecretError.
        """
        if isinstance(auth, str):
            credential = await self._referred(auth) or self._source.find(auth)
        elif isinstance(auth, dict):
            credential = await self._resolve_map(_unaliased(cast("Fields", auth)))
        else:
            raise CredentialError("auth is neither text nor a map: write the name of a credential")
        self._secrets = secrets_of(credential, self._secrets)
        return credential

    async def with_secrets(self, value: Json, kind: str = "") -> Json:
        """Return the value with references replaced by their secrets; ``kind`` is that of the tool whose config it is.
        Raises CredentialError, SecretError.
        """
        return await with_values(value, self._key, self._value, kind) if self._key else value

    async def reference(self, name: str, kind: str, config: dict[str, Json]) -> str:
        """Return a reference to an existing secret. Raises CredentialError, SecretError."""
        if not self._key:
            raise ConfigError("this call may not refer to secrets")
        entry = SecretReference(name, kind, config, ("value",))
        part_at(await fields_of_entry(entry, self._source), entry)
        return format_reference(entry, self._key)

    async def _value(self, reference: SecretReference, *, for_auth: bool = False) -> Json:
        config: Json = await self.with_secrets(reference.config)
        entry = msgspec.structs.replace(reference, config=config)
        value = part_at(await fields_of_entry(entry, self._source, for_auth=for_auth), reference)
        self._secrets = secrets_of({"value": values_in(value)}, self._secrets)
        return value

    async def _referred(self, text: str) -> Credential | None:
        """Return the secret that the text refers to, if it is a single reference."""
        if not self._key:
            return None
        reference = next(references_in(text, self._key), None)
        if reference is None or (reference.start, reference.end) != (0, len(text)):
            return None
        value = await self._value(reference.reference, for_auth=True)
        if not isinstance(value, dict):
            label = reference.reference.label
            raise CredentialError(f'auth is the single value "{label}": write auth: {{type: bearer, token: ...}}')
        return cast("Fields", value)

    async def _resolve_map(self, auth: Fields) -> Credential:
        name = _name_in(auth)
        if name is None or (self._key and refers(name)):
            return cast("Fields", await self.with_secrets(auth))
        credential = self._source.find(name)
        own = {key: value for key, value in auth.items() if key not in NAMES}
        replaced = sorted(key for key in own if key not in BESIDE_A_NAME)
        if replaced:
            raise CredentialError(
                f"auth names the credential {name!r} and sets {', '.join(replaced)}: a playbook cannot change a "
                "credential. Remove it, or register another credential"
            )
        if own.get("type") and credential.get("type") and own["type"] != credential["type"]:
            raise CredentialError(f"the credential {name!r} has another type than the one in auth: remove the type")
        return {**credential, **own}

    @property
    def has_secrets(self) -> bool:
        """Whether any were returned."""
        return bool(self._secrets)

    @property
    def has_multiline_secret(self) -> bool:
        """Whether a returned secret has several lines."""
        return any("\n" in secret for secret in self._secrets)

    def scrubbed(self, value: Any) -> Any:
        """Return the JSON value with all returned secrets masked."""
        return scrub(value, self._secrets)

    def cut(self, text: str, limit: int) -> str:
        """Return the first ``limit`` characters of the text, with all returned secrets masked: see scrub.cut."""
        return cut(text, limit, self._secrets)
