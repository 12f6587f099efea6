"""``noetl setup``: prepare a cluster."""

from __future__ import annotations

import asyncio
import sys

import click

from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.exits import WRONG
from noetl_temporal.cli.logging_setup import discard_log

__all__ = ["setup_command"]


@click.command("setup")
def setup_command() -> None:
    """Prepare Temporal and Postgres for playbooks: register search attributes, create or migrate tables.

    Finds Temporal by TEMPORAL_ADDRESS or a profile of temporal.toml and Postgres by NOETL_POSTGRES. Running it
    again changes nothing. The stack of `noetl dev up` needs no setup.
    """
    running_deployment()
    if not asyncio.run(_set_up()):
        sys.exit(WRONG)


async def _set_up() -> bool:
    from noetl_temporal.config import connect_temporal
    from noetl_temporal.environment import dsn_from_environment
    from noetl_temporal.setup import (
        RegistrationRefusedError,
        register_search_attributes,
        registration_commands,
        set_up_postgres,
    )

    discard_log()
    client = await connect_temporal()
    location = f"namespace {client.namespace!r} of {client.service_client.config.target_host}"
    is_complete = True
    try:
        names = await register_search_attributes(client)
        registration = f"registered the search attributes {', '.join(names)}" if names else "has all search attributes"
        click.echo(f"{location}: {registration}")
    except RegistrationRefusedError as error:
        is_complete = False
        click.echo(f"{location}: search attributes cannot be registered from here ({error}). Run one of", err=True)
        for command in registration_commands(client.namespace):
            click.echo(f"  {command}", err=True)
    dsn = dsn_from_environment()
    if dsn is None:
        click.echo("no Postgres to set up: NOETL_POSTGRES is not set, so there is no event log")
    else:
        migration_names = await set_up_postgres(dsn)
        click.echo(f"Postgres: applied {', '.join(migration_names)}" if migration_names else "Postgres is up to date")
    return is_complete
