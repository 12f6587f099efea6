"""Validates the environment variables and arguments that calls pass to programs."""

from __future__ import annotations

import json
import re

from noetl_activities.errors import ConfigError
from noetl_activities.outcome import Json

__all__ = ["as_argument", "variable_name"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def variable_name(field: str, name: object) -> str:
    """Return the name of an environment variable in ``field``. Raises ConfigError if it is invalid."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ConfigError(
            f'"{field}" has an invalid variable name: use letters, digits and _, not beginning with a digit'
        )
    return name


def as_argument(value: Json, label: str) -> str:
    """Return the value as a string, with lists and mappings as JSON. ``label`` names the value in the ConfigError."""
    text = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    if "\0" in text:
        raise ConfigError(f"{label} has a NUL character, which cannot be passed to a program")
    return text
