"""``noetl ledger``: the SQL of the table that makes SQL calls and sinks exactly once."""

from __future__ import annotations

import click

__all__ = ["ledger_group"]


@click.group("ledger")
def ledger_group() -> None:
    """Print the SQL of the table that SQL calls and sinks need to store rows exactly once."""


@ledger_group.command("sql")
def sql_command() -> None:
    """Print the SQL that creates noetl_ledger.outcome.

    SQL calls and sinks create the table if their role has the privilege. If it has not, run this SQL once in each
    database they write to, and grant the listed privileges to the role of the credential.

    \b
    noetl ledger sql | psql ...
    """
    from noetl_activities.sinks.postgres_ledger import DDL

    click.echo(DDL, nl=False)
    click.echo("-- for the role of each credential:")
    click.echo("-- grant usage on schema noetl_ledger to ROLE;")
    click.echo("-- grant select, insert, delete on noetl_ledger.outcome to ROLE;")
