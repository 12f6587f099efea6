"""Where a command's texts go: to stdout, to one file, or to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

__all__ = ["Text", "print_texts", "write_texts"]


class Text(NamedTuple):
    """A text with the file it was made from."""

    file: str
    text: str


def print_texts(texts: Sequence[Text], *, titled: bool) -> None:
    """One after the other, each below the name of its file when ``titled``."""
    for index, (file, text) in enumerate(texts):
        if titled:
            click.echo("\n" * bool(index) + f"# {file}\n")
        click.echo(text)


def write_texts(texts: Sequence[Text], output: Path, suffix: str, *, several: bool) -> None:
    """One to the file, several to the folder, each under its own path there. Raises click.ClickException."""
    try:
        for file, text in texts:
            target = _below(output, file, suffix) if several or output.is_dir() else output
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise click.ClickException(f"cannot write to {output}: {error.strerror or error}") from None


def _below(folder: Path, file: str, suffix: str) -> Path:
    path = Path(file)
    relative = Path(*(part for part in path.parts if part not in ("..", path.anchor)))
    return (folder / relative).with_suffix(f".{suffix}")
