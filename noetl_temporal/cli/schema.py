"""``noetl schema``: the JSON Schema of playbooks, for editors."""

from __future__ import annotations

import json
from pathlib import Path

import click

from noetl_compiler.schema import DIALECTS, json_schema
from noetl_compiler.syntax import Dialect

__all__ = ["schema_command"]


@click.command("schema")
@click.option(
    "--dialect", type=click.Choice(DIALECTS), default="v10", show_default=True, help="The playbooks' dialect."
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
def schema_command(dialect: Dialect, output: Path | None) -> None:
    """Print the JSON Schema of playbooks, with which an editor completes, explains and checks them.

    \b
    noetl schema -o playbook.schema.json
    # yaml-language-server: $schema=playbook.schema.json       the first line of a playbook
    """
    text = json.dumps(json_schema(dialect), indent=2)
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(f"{text}\n", encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write to {str(output)!r}: {(error.strerror or str(error)).lower()}") from None
