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

__all__ = ["FileOutput", "path_below", "print_outputs", "terminal_width", "write_outputs", "write_text"]


class FileOutput(NamedTuple):
    """The output ``text`` of a command for an input ``file``."""

    file: str
    text: str


def terminal_width() -> int | None:
    """Return the columns of the terminal; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_outputs(outputs: Sequence[FileOutput], *, has_titles: bool, has_colours: bool = False) -> None:
    """Print the outputs. ``has_titles``: each below the name of its file. ``has_colours``: coloured on a terminal."""
    echo = _echo_coloured if has_colours and sys.stdout.isatty() else click.echo
    for index, (file, text) in enumerate(outputs):
        if has_titles:
            click.echo("\n" * bool(index) + f"# {printable_line(file)}\n")
        echo(text)


def _echo_coloured(text: str) -> None:
    from noetl_temporal.cli.colours import echo_coloured  # rich is slow to import, and only a terminal needs it

    echo_coloured(text)


def write_outputs(outputs: Sequence[FileOutput], output: Path, suffix: str, *, into_folder: bool) -> None:
    """Write the outputs to the file ``output``, or into that folder under the paths of their files.

    Raises click.UsageError.
    """
    for file, text in outputs:
        if into_folder or output.is_dir():
            write_text(path_below(output, file).with_suffix(f".{suffix}"), f"{text}\n", output)
        else:
            write_text(output, f"{text}\n", output.parent)


def write_text(target: Path, text: str, allowed_folder: Path) -> None:
    """Write one file; see ``rewrite``. Raises click.UsageError if the file cannot be written."""
    try:
        rewrite(target, text, allowed_folder)
    except click.ClickException as error:
        raise click.UsageError(error.message) from None


def path_below(folder: Path, file: str) -> Path:
    """Return the path below ``folder`` for the output of a file."""
    path = Path(file)
    return folder / Path(*(part for part in path.parts if part not in ("..", path.anchor)))
