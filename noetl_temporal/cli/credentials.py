"""The credentials file of a run, checked before anything starts."""

from __future__ import annotations

from pathlib import Path

import click
import yaml

__all__ = ["check_credentials"]


def check_credentials(file: Path) -> None:
    """Raises UsageError when ``file`` cannot hold credentials."""
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise click.UsageError(f"cannot read credentials from {file}: {error}") from None
    if not isinstance(found, dict | list):
        raise click.UsageError(f"{file} holds no credentials: write NAME: {{type: postgres, db_host: ...}}")
