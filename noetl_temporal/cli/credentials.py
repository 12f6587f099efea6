"""The credentials file of a run, checked before anything starts."""

from __future__ import annotations

from pathlib import Path

import click

from noetl_activities.credentials import read_credentials
from noetl_activities.errors import CredentialError
from noetl_compiler.regular_file import read_regular

__all__ = ["check_credentials"]

MAX_BYTES = 1_000_000


def check_credentials(file: Path) -> None:
    """Raises UsageError when ``file`` cannot hold credentials."""
    try:
        if len(read_regular(file, MAX_BYTES + 1)) > MAX_BYTES:
            raise click.UsageError(f"the credentials file {file} has more than {MAX_BYTES:,} bytes")
        read_credentials(file)
    except OSError as error:
        raise click.UsageError(f"cannot read the credentials file {file}: {error.strerror}") from None
    except CredentialError as error:
        raise click.UsageError(str(error)) from None
