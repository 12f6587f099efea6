"""The credentials file of a run: checked early, read by the activities that use it."""

from __future__ import annotations

import os
from pathlib import Path

import click
import yaml

__all__ = ["use_credentials"]


def use_credentials(file: Path) -> None:
    """Name ``file`` to the worker in this process. Raises UsageError when it cannot hold credentials."""
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise click.UsageError(f"cannot read credentials from {file}: {error}") from None
    if not isinstance(found, dict | list):
        raise click.UsageError(f"{file} holds no credentials: write NAME: {{type: postgres, db_host: ...}}")
    os.environ["NOETL_CREDENTIALS"] = str(file.resolve())
