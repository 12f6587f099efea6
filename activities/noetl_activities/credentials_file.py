"""Reads the credentials file: YAML, ``name: {type: postgres, db_host: ...}``, or a list of ``{name, type, data}`` as in
upstream's API.

Other programs may share the file, so an entry of an unknown type is an error only when a playbook names it
(credentials.py). Errors name the file and the position or entry, but no value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import yaml

from noetl_activities.credential_fields import field_error, unknown_keys_error
from noetl_activities.credential_shape import credential_fields
from noetl_activities.errors import CredentialError
from noetl_activities.tool import Credential

__all__ = ["read_credentials", "unreadable_file"]

_EXPLANATIONS = {
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
"""The beginning of a parser message -> its explanation. The message itself may contain a value."""


def read_credentials(file: Path) -> Mapping[str, Credential]:
    """Return the credentials in a file, by name. Raises CredentialError with a message of one line."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable_file(file, error) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise CredentialError(
            f"{file}{_position(error)}: the credentials file is not valid YAML{_explanation(error)}"
        ) from None
    if not isinstance(document, list | dict):
        raise CredentialError(f"{file} contains no credentials: write NAME: {{type: postgres, db_host: ...}}")
    entries = (
        _list_entries(file, cast("list[Any]", document))
        if isinstance(document, list)
        else _mapping_entries(file, cast("dict[Any, Any]", document))
    )
    return {name: _check_fields(file, name, fields) for name, fields in entries}


def unreadable_file(file: Path, error: OSError) -> CredentialError:
    """Return the error for a file that cannot be read."""
    return CredentialError(f"cannot read the credentials file {file}: {error.strerror}")


def _list_entries(file: Path, entries: list[Any]) -> Iterator[tuple[str, Credential]]:
    for number, entry in enumerate(entries, 1):
        fields = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        data = fields.get("data", {})
        if not isinstance(fields.get("name"), str) or not isinstance(data, dict):
            hint = "write {name: ..., type: ..., data: {...}}"
            raise CredentialError(f"{file}: entry {number} is not a credential: {hint}")
        error_text = unknown_keys_error(fields, ("name", "data"))
        if error_text:
            raise CredentialError(f"{file}: entry {number} ({fields['name']!r}): {error_text}")
        yield (
            fields["name"],
            credential_fields({key: value for key, value in fields.items() if key != "name" and value is not None}),
        )


def _mapping_entries(file: Path, entries: Mapping[Any, Any]) -> Iterator[tuple[str, Credential]]:
    for name, entry in entries.items():
        if not isinstance(entry, dict):
            raise CredentialError(f"{file}: the credential {str(name)!r} is not a mapping: write {{type: ..., ...}}")
        yield str(name), credential_fields(cast("dict[str, Any]", entry))


def _check_fields(file: Path, name: str, fields: Credential) -> Credential:
    error_text = field_error(fields)
    if error_text:
        raise CredentialError(f"{file}: the credential {name!r}: {error_text}")
    return fields


def _position(error: Exception) -> str:
    position = getattr(error, "problem_mark", None)
    return f":{position.line + 1}:{position.column + 1}" if position else ""


def _explanation(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return ": it is not UTF-8"
    problem = str(getattr(error, "problem", None) or "")
    return next(
        (f": {explanation}" for beginning, explanation in _EXPLANATIONS.items() if problem.startswith(beginning)), ""
    )
