"""``noetl ledger``: the table beside the rows of sinks."""

from __future__ import annotations

import click

__all__ = ["ledger_group"]


@click.group("ledger")
def ledger_group() -> None:
    """Print the table that makes SQL calls and sinks store rows exactly once."""


@ledger_group.command("sql")
def sql_command() -> None:
    """Print the SQL that makes noetl_ledger.outcome.

    A SQL call or a sink makes the table itself where its role may. Where it may not, somebody who may runs this once in
    each database that they write to, and grants the role of the credential what it needs.

    \b
    noetl ledger sql | psql ...
    """
    from noetl_activities.sinks.postgres_ledger import DDL

    click.echo(DDL, nl=False)
    click.echo("-- for the role of each credential:")
    click.echo("-- grant usage on schema noetl_ledger to ROLE;")
    click.echo("-- grant select, insert, delete on noetl_ledger.outcome to ROLE;")
