"""Checks the credentials of a run before anything starts."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import click
from temporalio.client import Client

from noetl_activities.credentials import CredentialSource
from noetl_activities.credentials_file import read_credentials
from noetl_activities.errors import CredentialError
from noetl_activities.variables import CREDENTIALS_VARIABLE
from noetl_compiler.credential_names import credentials_without_template
from noetl_compiler.graph import Graph
from noetl_compiler.regular_file import read_regular
from noetl_temporal.calls.credential_check import credential_error, missing_credentials
from noetl_temporal.cli.connection import Deployment
from noetl_temporal.cli.playbook import refuse_to_start
from noetl_temporal.submission.credential_source import credential_source

__all__ = ["check_credentials", "check_names", "check_names_of_workers", "warn_of_ignored_credentials"]

MAX_BYTES = 1_000_000


def check_credentials(file: Path | None) -> None:
    """Check ``file``, or the file that NOETL_CREDENTIALS names. Raises UsageError, DeploymentError."""
    if file is None:
        credential_source()
        return
    try:
        if len(read_regular(file, MAX_BYTES + 1)) > MAX_BYTES:
            raise click.UsageError(f"the credentials file {file} has more than {MAX_BYTES:,} bytes")
        read_credentials(file)
    except OSError as error:
        raise click.UsageError(f"cannot read the credentials file {file}: {error.strerror}") from None
    except CredentialError as error:
        raise click.UsageError(str(error)) from None


def check_names(graphs: Iterable[Graph], source: CredentialSource) -> None:
    """Exit with WRONG if a playbook names a missing credential. Names with templates are checked when their step
    starts.
    """
    refuse_to_start(
        [
            f"{graph.source.file}:{span.line}:{span.col}: error: {problem}"
            for graph in graphs
            for name, span in credentials_without_template(graph).items()
            if (problem := credential_error(name, source))
        ]
    )


async def check_names_of_workers(graphs: Iterable[Graph], client: Client) -> None:
    """As ``check_names``, with the credentials of the workers, which are other processes."""
    refuse_to_start(await missing_credentials(client, graphs))


def warn_of_ignored_credentials(deployment: Deployment) -> None:
    """Warn if NOETL_CREDENTIALS has no effect because this process does not serve the run."""
    file = os.environ.get(CREDENTIALS_VARIABLE)
    if file and not deployment.serves_here and file != deployment.credentials:
        click.echo(
            f"{CREDENTIALS_VARIABLE} is ignored here: it is read where the worker starts. "
            "Restart the stack, or use --credentials",
            err=True,
        )
