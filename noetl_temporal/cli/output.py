"""Writes the output of a command to stdout, to one file, or to a folder."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from noetl_compiler.printable import printable_line
from noetl_temporal.cli.rewrite_files import rewrite

__all__ = ["Text", "path_below", "print_texts", "terminal_width", "write_text", "write_texts"]


class Text(NamedTuple):
    """Output with the path of the file that it was made from."""

    file: str
    text: str


def terminal_width() -> int | None:
    """Return the columns of the terminal; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_texts(texts: Sequence[Text], *, has_titles: bool, has_colours: bool = False) -> None:
    """Print the texts, each below the name of its file if ``has_titles``; ``has_colours`` on a terminal."""
    echo = _echo_coloured if has_colours and sys.stdout.isatty() else click.echo
    for index, (file, text) in enumerate(texts):
        if has_titles:
            click.echo("\n" * bool(index) + f"# {printable_line(file)}\n")
        echo(text)


def _echo_coloured(text: str) -> None:
    from noetl_temporal.cli.colours import echo_coloured  # rich is slow to import, and only a terminal needs it

    echo_coloured(text)


def write_texts(texts: Sequence[Text], output: Path, suffix: str, *, into_folder: bool) -> None:
    """Write the texts to the file, or into the folder, each under its own path. Raises click.UsageError."""
    for file, text in texts:
        if into_folder or output.is_dir():
            write_text(path_below(output, file).with_suffix(f".{suffix}"), f"{text}\n", output)
        else:
            write_text(output, f"{text}\n", output.parent)


def write_text(target: Path, text: str, within: Path) -> None:
    """Write one file; see ``rewrite``. Raises click.UsageError if the file cannot be written."""
    try:
        rewrite(target, text, within)
    except click.ClickException as error:
        raise click.UsageError(error.message) from None


def path_below(folder: Path, file: str) -> Path:
    """Return the path below ``folder`` for the output of a file."""
    path = Path(file)
    return folder / Path(*(part for part in path.parts if part not in ("..", path.anchor)))
