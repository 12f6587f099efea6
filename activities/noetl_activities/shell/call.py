"""The validated call of a shell task: commands, environment and folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from noetl_activities.credential_fields import METADATA
from noetl_activities.errors import ConfigError
from noetl_activities.program_arguments import as_argument, variable_name
from noetl_activities.tool import Credential, Json, Request
from noetl_compiler.language.tool_fields import DEFAULT_SHELL, SHELLS

__all__ = ["MAX_TEXT_BYTES", "ShellCall", "shell_call"]

MAX_TEXT_BYTES = 128 * 1024 - 1
"""Maximum bytes of a command, or of a variable with its name: the limit of Linux (MAX_ARG_STRLEN)."""


class ShellCall(NamedTuple):
    """The input of child.py. ``cwd`` is empty for the folder of the call."""

    shell: str
    commands: list[str]
    environment: dict[str, str]
    cwd: str


def shell_call(request: Request, credential: Credential | None) -> ShellCall:
    """Validate the call. Raises ConfigError, which names the field but no value: it may be a secret."""
    config = request.config
    shell = config.get("shell") or DEFAULT_SHELL
    if shell not in SHELLS:
        raise ConfigError(f'"shell" must be one of {", ".join(SHELLS)}')
    cwd = config.get("cwd") or ""
    if not isinstance(cwd, str):
        raise ConfigError('"cwd" must be a string')
    return ShellCall(shell, _commands(config), _environment(request, credential), _check_size(cwd, '"cwd"'))


def _commands(config: Mapping[str, Json]) -> list[str]:
    value = config.get("cmds", config.get("command"))
    commands = cast("list[Json]", value) if isinstance(value, list) else [value]
    strings = [command for command in commands if command is not None]
    if not all(isinstance(text, str) for text in strings):
        raise ConfigError('"cmds" must be a string or a list of strings')
    if not any(text.strip() for text in strings):
        raise ConfigError('a shell task needs "cmds" or "command"')
    return [_check_size(text, f"command {number}") for number, text in enumerate(strings, 1)]


def _environment(request: Request, credential: Credential | None) -> dict[str, str]:
    """Return the variables of the call. Later ones override earlier ones."""
    variables = [
        *_credential_variables(credential or {}),
        *_variables_of_field("input", request.input),
        *_variables_of_field("env", request.config.get("env")),
    ]
    return dict(variables)


def _credential_variables(credential: Credential) -> Iterator[tuple[str, str]]:
    """Yield the fields of the credential as variables: ``token`` becomes ``TOKEN``."""
    for name, value in credential.items():
        if name not in METADATA and name != "type" and isinstance(value, str | int | float):
            variable = re.sub(r"\W", "_", name, flags=re.ASCII).upper()
            yield variable, _check_size(value, f"the field {name} of the credential", f"{variable}=")


def _variables_of_field(field: str, value: Json) -> Iterator[tuple[str, str]]:
    if value is None:
        return
    if not isinstance(value, dict):
        raise ConfigError(f'"{field}" must be a mapping of variables')
    for name, item in cast("dict[Any, Json]", value).items():
        variable = variable_name(field, name)
        yield variable, _check_size(item, f'the variable {variable} of "{field}"', f"{variable}=")


def _check_size(value: Json, label: str, prefix: str = "") -> str:
    """Return the value as a string for a program, with lists and mappings as JSON. Raises ConfigError, which names the
    value with ``label``, if the string is too long after ``prefix``.
    """
    text = as_argument(value, label)
    try:
        size = len(text.encode()) + len(prefix)
    except UnicodeEncodeError:
        raise ConfigError(f"{label} has a lone surrogate, which is not a character") from None
    if size > MAX_TEXT_BYTES:
        raise ConfigError(f"{label} has {size:,} bytes, over {MAX_TEXT_BYTES:,}: write it to a file, or pass less")
    return text
