"""Credentials by name (semantics.md 28): they exist only here, in the process that runs the tool.

A name is looked up in the credentials file, then in the environment (``NOETL_CREDENTIAL_<NAME>``, JSON). The file is
YAML: ``name: {type: postgres, db_host: ...}``, or a list of ``{name, type, data}``.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from noetl_activities.errors import CredentialError
from noetl_activities.scrub import scrub
from noetl_activities.tool import Credential, Json

__all__ = ["CredentialSource", "Credentials", "read_credentials"]

_MOST_NAMED = 10
_NAMES = ("credential", "key", "name")
_PUBLIC = frozenset({"type", "db_host", "db_port", "db_name", "db_user", "host", "port", "database", "user", "service"})
_PUBLIC_FIELDS = frozenset({"source", "inject", "header_name", "schema", "scope", "provider"}) | _PUBLIC


class CredentialSource:
    """Where names are looked up; ``environment`` is this process's by default."""

    def __init__(self, file: Path | None = None, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._file = file
        self._read: tuple[float, Mapping[str, Credential]] | None = None

    def find(self, name: str) -> Credential:
        """The credential of a name. Raises CredentialError."""
        found = self._from_file().get(name)
        if found is not None:
            return found
        variable = "NOETL_CREDENTIAL_" + re.sub(r"\W", "_", name).upper()
        if variable not in self._environment:
            where = f"the file {self._file}" if self._file else "a file that NOETL_CREDENTIALS names"
            raise CredentialError(
                f"no credential {name!r}{self._hint(name)}: add it to {where}, or set {variable} for the worker"
            )
        return _from_json(variable, self._environment[variable])

    def _hint(self, name: str) -> str:
        """Names only, never values: `` (did you mean 'pg_local'?)``, else the names there are."""
        prefix = "NOETL_CREDENTIAL_"
        named = {one.removeprefix(prefix).lower() for one in self._environment if one.startswith(prefix)}
        known = sorted({*self._from_file(), *named})
        near = difflib.get_close_matches(name, known, n=1)
        if near:
            return f" (did you mean {near[0]!r}?)"
        return f" (there are {', '.join(known[:_MOST_NAMED])})" if known else ""

    def _from_file(self) -> Mapping[str, Credential]:
        """The file's credentials; read again when it has changed."""
        if self._file is None:
            return {}
        try:
            changed = self._file.stat().st_mtime
            if self._read is None or self._read[0] != changed:
                self._read = (changed, read_credentials(self._file))
        except OSError as error:
            raise _unreadable(self._file, error) from error
        return self._read[1]


def _from_json(variable: str, text: str) -> Credential:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CredentialError(f'{variable} is not JSON: write {{"type": "postgres", ...}}') from error
    if not isinstance(found, dict):
        raise CredentialError(f"{variable} is not a JSON object")
    return cast("Credential", found)


def read_credentials(file: Path) -> Mapping[str, Credential]:
    """The credentials of a file by name. Raises CredentialError, in one line and without any of its values."""
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unreadable(file, error) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        place = getattr(error, "problem_mark", None)
        line = f":{place.line + 1}:{place.column + 1}" if place else ""
        raise CredentialError(f"{file}{line}: the credentials file is not valid YAML") from error
    if isinstance(found, list):
        return dict(_listed(file, number, one) for number, one in enumerate(cast("list[Any]", found), 1))
    if isinstance(found, dict):
        return {str(name): _flat(fields) for name, fields in cast("dict[str, Any]", found).items()}
    raise CredentialError(f"{file} holds no credentials: write NAME: {{type: postgres, db_host: ...}}")


def _listed(file: Path, number: int, one: Any) -> tuple[str, Credential]:
    fields = cast("dict[str, Any]", one) if isinstance(one, dict) else {}
    data = fields.get("data", {})
    if not isinstance(fields.get("name"), str) or not isinstance(data, dict):
        raise CredentialError(f"{file}: entry {number} is no credential: write {{name: ..., type: ..., data: {{...}}}}")
    return fields["name"], {**cast("dict[str, Any]", data), "type": fields.get("type")}


def _unreadable(file: Path, error: OSError) -> CredentialError:
    return CredentialError(f"cannot read the credentials file {file}: {error.strerror}")


def _flat(fields: Json) -> Credential:
    """Fields may stand under ``data``, as upstream's API takes them."""
    if not isinstance(fields, dict):
        return {"value": fields}
    plain = cast("dict[str, Any]", fields)
    inner = plain.get("data")
    return {**plain, **cast("dict[str, Any]", inner)} if isinstance(inner, dict) else plain


class Credentials:
    """The credentials of one call. Every secret value it hands out is scrubbed from what leaves the activity."""

    def __init__(self, source: CredentialSource) -> None:
        self._source = source
        self._secrets: set[str] = set()

    async def resolve(self, auth: Json) -> Credential:
        """A name, ``{type, credential|key, ...}`` (own fields lie over the credential's), or the fields themselves."""
        if isinstance(auth, str):
            found = self._source.find(auth)
        elif isinstance(auth, dict):
            found = self._resolve_map(cast("dict[str, Any]", auth))
        else:
            raise CredentialError(f"auth is {auth!r}: write a credential's name")
        self._remember(found)
        return found

    def _resolve_map(self, auth: dict[str, Any]) -> Credential:
        name = next((auth[key] for key in _NAMES if isinstance(auth.get(key), str)), None)
        own = {key: value for key, value in auth.items() if key not in _NAMES}
        if name is not None:
            return {**self._source.find(name), **own}
        only = next(iter(auth.values())) if len(auth) == 1 else None
        return self._resolve_map(cast("dict[str, Any]", only)) if isinstance(only, dict) else auth

    def _remember(self, fields: Credential) -> None:
        for key, value in fields.items():
            if isinstance(value, Mapping):
                self._remember(cast("Credential", value))
            elif key not in _PUBLIC_FIELDS and isinstance(value, str | int | float) and not isinstance(value, bool):
                self._secrets.add(str(value))

    def scrubbed(self, value: Any) -> Any:
        """The JSON value without any secret that was handed out."""
        return scrub(value, self._secrets)
