"""Files that are rewritten, and what would change in them."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import click

from noetl_temporal.stack.files import replace_text

__all__ = ["difference", "rewrite"]


def rewrite(target: Path, text: str, within: Path) -> None:
    """All or nothing: a file is never left half written. A link stays one, and the permissions stay.

    A link may lead to a file below ``within``, the folder that a person named, and nowhere else: who made the folder
    made its links. Raises click.ClickException when it cannot be written, as is a file that may only be read.
    """
    real = Path(os.path.realpath(target))
    if not real.is_relative_to(os.path.realpath(within)):
        problem = f"it is a link that leads out of {within}, to {real}; to write that file, name it directly"
        raise click.ClickException(f"cannot write {target}: {problem}")
    try:
        if real.exists() and not os.access(real, os.W_OK):
            raise PermissionError(None, "it is read-only")
        real.parent.mkdir(parents=True, exist_ok=True)
        replace_text(real, text)
    except OSError as error:
        problem = error.strerror or str(error)
        raise click.ClickException(f"cannot write {target}: {problem[:1].lower()}{problem[1:]}") from None


def difference(file: str, before: str, after: str) -> str:
    """Return a unified diff, as ``patch`` takes it; empty when nothing changes."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), file, file)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
