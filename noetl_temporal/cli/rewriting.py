"""Files that are written anew, and what would change in them."""

from __future__ import annotations

import difflib
import os
import shutil
from pathlib import Path

import click

__all__ = ["difference", "rewrite"]


def rewrite(target: Path, text: str) -> None:
    """All or nothing: a file is never left half written. A link stays one, and the permissions stay.

    Raises click.ClickException when it cannot be written, which counts for a file that may only be read.
    """
    target = target.resolve()
    beside = target.with_name(f".{target.name}.new")
    try:
        if target.exists() and not os.access(target, os.W_OK):
            raise PermissionError(None, "it may only be read")
        beside.write_text(text, encoding="utf-8", newline="")
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise click.ClickException(f"cannot write {target}: {(error.strerror or str(error)).lower()}") from None


def difference(file: str, before: str, after: str) -> str:
    """A unified diff, as ``patch`` takes it; empty when nothing changes."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), file, file)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
