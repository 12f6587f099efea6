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

__all__ = ["LONGEST_TEXT", "ShellCall", "shell_call"]

LONGEST_TEXT = 128 * 1024 - 1
"""Maximum bytes of a command, or of a variable with its name: the limit of Linux (MAX_ARG_STRLEN)."""


class ShellCall(NamedTuple):
    """The input of shell_child.py. ``cwd`` is empty for the folder of the call."""

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
        raise ConfigError('"cwd" must be text')
    return ShellCall(shell, _commands(config), _environment(request, credential), _passed(cwd, '"cwd"'))


def _commands(config: Mapping[str, Json]) -> list[str]:
    given = config.get("cmds", config.get("command"))
    listed = cast("list[Json]", given) if isinstance(given, list) else [given]
    texts = [command for command in listed if command is not None]
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError('"cmds" must be text or a list of texts')
    if not any(text.strip() for text in texts):
        raise ConfigError('a shell task needs "cmds" or "command"')
    return [_passed(text, f"command {number}") for number, text in enumerate(texts, 1)]


def _environment(request: Request, credential: Credential | None) -> dict[str, str]:
    """Return the variables of the call. Later ones override earlier ones."""
    named = [
        *_variables_of(credential or {}),
        *_items("input", request.input),
        *_items("env", request.config.get("env")),
    ]
    return dict(named)


def _variables_of(credential: Credential) -> Iterator[tuple[str, str]]:
    """Yield the fields of the credential as variables: ``token`` becomes ``TOKEN``."""
    for name, value in credential.items():
        if name not in METADATA and name != "type" and isinstance(value, str | int | float):
            variable = re.sub(r"\W", "_", name, flags=re.ASCII).upper()
            yield variable, _passed(value, f"the field {name} of the credential", f"{variable}=")


def _items(field: str, given: Json) -> Iterator[tuple[str, str]]:
    if given is None:
        return
    if not isinstance(given, dict):
        raise ConfigError(f'"{field}" must be a mapping of variables')
    for name, value in cast("dict[Any, Json]", given).items():
        checked = variable_name(field, name)
        yield checked, _passed(value, f'the variable {checked} of "{field}"', f"{checked}=")


def _passed(value: Json, what: str, beside: str = "") -> str:
    """Return the value as text for a program, with lists and mappings as JSON. ``beside`` is added to its size."""
    text = as_argument(value, what)
    try:
        size = len(text.encode()) + len(beside)
    except UnicodeEncodeError:
        raise ConfigError(f"{what} has a lone surrogate, which is not a character") from None
    if size > LONGEST_TEXT:
        raise ConfigError(f"{what} has {size:,} bytes, over {LONGEST_TEXT:,}: write it to a file, or pass less")
    return text
