"""The credentials file of a run, checked before anything starts."""

from __future__ import annotations

from pathlib import Path

import click

from noetl_activities.credentials import read_credentials
from noetl_activities.errors import CredentialError

__all__ = ["check_credentials"]


def check_credentials(file: Path) -> None:
    """Raises UsageError when ``file`` cannot hold credentials."""
    try:
        read_credentials(file)
    except CredentialError as error:
        raise click.UsageError(str(error)) from None
