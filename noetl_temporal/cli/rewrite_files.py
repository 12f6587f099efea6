"""Rewrites files of the user, and shows what would change."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

import click

from noetl_temporal.stack.files import replace_user_file

__all__ = ["rewrite", "unified_diff"]


def rewrite(target: Path, text: str, allowed_folder: Path) -> None:
    """Replace a file atomically. Its permissions are kept, and a link stays a link.

    A link must lead to a file below ``allowed_folder``, because a folder on the command line may be from an untrusted
    source. Raises click.ClickException if the file cannot be written or is read-only.
    """
    real_path = Path(os.path.realpath(target))
    if not real_path.is_relative_to(os.path.realpath(allowed_folder)):
        problem = (
            f"it is a link that leads out of {allowed_folder}, to {real_path}; to write that file, name it directly"
        )
        raise click.ClickException(f"cannot write {target}: {problem}")
    try:
        if real_path.exists() and not os.access(real_path, os.W_OK):
            raise PermissionError(None, "it is read-only")
        real_path.parent.mkdir(parents=True, exist_ok=True)
        replace_user_file(real_path, text)
    except OSError as error:
        problem = error.strerror or str(error)
        raise click.ClickException(f"cannot write {target}: {problem[:1].lower()}{problem[1:]}") from None


def unified_diff(file: str, before: str, after: str) -> str:
    """Return a unified diff for ``patch``; empty if nothing changes."""
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), file, file)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
