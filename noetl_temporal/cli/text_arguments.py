"""String arguments on the command line. Every command imports this module, so it imports little."""

from __future__ import annotations

from typing import Any

import click

from noetl_temporal.unicode_text import is_unicode

__all__ = ["UnicodeText", "quote_argument", "require_unicode"]

MAX_CHARACTERS = 200
"""The maximum number of characters of an argument that an error repeats."""


def quote_argument(text: str) -> str:
    """Quote an argument for an error message; a long one is truncated."""
    return repr(text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}...")


class UnicodeText(click.ParamType[Any]):
    """A string argument. Rejects bytes that are not UTF-8, because they cannot be sent to a server."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raises click.BadParameter."""
        text = str(value)
        return text if is_unicode(text) else self.fail(f"{quote_argument(text)} is not UTF-8", param, ctx)


def require_unicode(command: click.Command) -> None:
    """Make all string parameters of a command reject bytes that are not UTF-8; paths and other types stay unchanged."""
    for parameter in command.params:
        if parameter.type is click.STRING:
            parameter.type = UnicodeText()
    if isinstance(command, click.Group):
        for subcommand in command.commands.values():
            require_unicode(subcommand)
