"""Texts on the command line. Every command imports this module, so it imports little."""

from __future__ import annotations

from typing import Any

import click

from noetl_temporal.unicode_text import is_unicode

__all__ = ["Text", "require_unicode", "shown"]

LONGEST_SHOWN = 200
"""Characters of an argument that an error repeats."""


def shown(text: str) -> str:
    """Return an argument as errors repeat it."""
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}...")


class Text(click.ParamType[Any]):
    """Text of a command line that may have bytes outside of UTF-8, which no server can be sent."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Raises click.BadParameter."""
        text = str(value)
        return text if is_unicode(text) else self.fail(f"{shown(text)} is not UTF-8", param, ctx)


def require_unicode(command: click.Command) -> None:
    """Check all texts that the command takes, but those with a type of their own, such as paths of files."""
    for parameter in command.params:
        if parameter.type is click.STRING:
            parameter.type = Text()
    if isinstance(command, click.Group):
        for nested in command.commands.values():
            require_unicode(nested)
