"""The credentials file: YAML, ``name: {type: postgres, db_host: ...}``, or a list of ``{name, type, data}``, the form
of upstream's API.

An entry of an unknown type is kept, and refused when a playbook names it (credentials.py): the file may be shared with
other programs. Errors name the file and the position or entry, but no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from noetl_activities.credential_fields import field_problem, unknown_keys
from noetl_activities.credential_shape import fields_of
from noetl_activities.errors import CredentialError
from noetl_activities.tool import Credential

__all__ = ["read_credentials", "unreadable"]

_REASONS = {
    "mapping values are not allowed": 'a value that contains ": " must be quoted',
    "could not find expected ':'": 'a line has no ":"',
    "found unexpected end of stream": "a quote is not closed",
    "found character '\\t'": "a tab where spaces are expected",
    "found character": "a value begins with a character that must be quoted",
    "found undefined alias": "a value that begins with * must be quoted",
    "could not determine a constructor": "a value that begins with ! must be quoted",
    "expected ',' or": "a bracket is not closed",
    "expected the node content": "a value is missing, or a bracket is not closed",
    "expected <block end>": "the indentation does not match",
}
"""Message of the parser, which may contain a value -> explanation."""


def read_credentials(file: Path) -> Mapping[str, Credential]:
    """Return the credentials in a file, by name. Raises CredentialError, with one line and no values."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(file, error) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CredentialError(f"{file}{_place(error)}: the credentials file is not valid YAML{_why(error)}") from None
    if not isinstance(document, list | dict):
        raise CredentialError(f"{file} contains no credentials: write NAME: {{type: postgres, db_host: ...}}")
    entries = (
        _listed(file, cast("list[Any]", document))
        if isinstance(document, list)
        else _named(file, cast("dict[Any, Any]", document))
    )
    return {name: _checked(file, name, fields) for name, fields in entries}


def unreadable(file: Path, error: OSError) -> CredentialError:
    """Return the error for a file that cannot be read."""
    return CredentialError(f"cannot read the credentials file {file}: {error.strerror}")


def _listed(file: Path, entries: list[Any]) -> Iterator[tuple[str, Credential]]:
    for number, entry in enumerate(entries, 1):
        fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        data = fields.get("data", {})
        if not isinstance(fields.get("name"), str) or not isinstance(data, dict):
            hint = "write {name: ..., type: ..., data: {...}}"
            raise CredentialError(f"{file}: entry {number} is not a credential: {hint}")
        problem = unknown_keys(fields, ("name", "data"))
        if problem:
            raise CredentialError(f"{file}: entry {number} ({fields['name']!r}): {problem}")
        yield (
            fields["name"],
            fields_of({key: value for key, value in fields.items() if key != "name" and value is not None}),
        )


def _named(file: Path, entries: Mapping[Any, Any]) -> Iterator[tuple[str, Credential]]:
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise CredentialError(f"{file}: the credential {str(name)!r} is not a mapping: write {{type: ..., ...}}")
        yield str(name), fields_of(cast("dict[str, Any]", entry))


def _checked(file: Path, name: str, fields: Credential) -> Credential:
    problem = field_problem(fields)
    if problem:
        raise CredentialError(f"{file}: the credential {name!r}: {problem}")
    return fields


def _place(error: Exception) -> str:
    place = getattr(error, "problem_mark", None)
    return f":{place.line + 1}:{place.column + 1}" if place else ""


def _why(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return ": it is not UTF-8"
    problem = str(getattr(error, "problem", None) or "")
    return next((f": {meaning}" for words, meaning in _REASONS.items() if problem.startswith(words)), "")
