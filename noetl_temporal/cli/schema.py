"""``noetl schema``: the JSON Schema of playbooks, for editors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click

from noetl_activities.installed_tools import installed_tools
from noetl_compiler.language.words import Dialect
from noetl_compiler.schema import DIALECTS, Schema, json_schema, schema_of_all
from noetl_compiler.schema.playbook_tests import schema_of_tests
from noetl_compiler.schema.tools import ToolKinds
from noetl_temporal.cli.output import write_text

__all__ = ["schema_command"]

_ALL = "all"
_TEST = "test"


@click.command("schema")
@click.option(
    "--dialect",
    type=click.Choice((*DIALECTS, _ALL, _TEST)),
    default="v10",
    show_default=True,
    help="Dialect of the playbooks; all accepts any dialect, test is for files of tests.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
def schema_command(dialect: str, output: Path | None) -> None:
    """Print the JSON Schema of playbooks, for completion and validation in editors.

    It has the fields of all tools that are installed here.

    \b
    noetl schema -o playbook.schema.json
    # yaml-language-server: $schema=playbook.schema.json       the first line of a playbook
    """
    kinds = ToolKinds(installed_tools())
    text = "".join(_lines(_schema(dialect, kinds)))
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(output, text, output.parent)


def _schema(dialect: str, kinds: ToolKinds) -> Schema:
    if dialect == _TEST:
        return schema_of_tests()
    return schema_of_all(kinds) if dialect == _ALL else json_schema(cast("Dialect", dialect), kinds)


def _lines(schema: Schema) -> Iterator[str]:
    """Yield the schema as compact JSON with one definition per line, so that versions can be compared."""
    *head, (last, definitions) = schema.items()
    yield "{\n"
    yield from (f"  {json.dumps(key)}: {_compact_json(value)},\n" for key, value in head)
    yield f"  {json.dumps(last)}: {{\n"
    yield ",\n".join(
        f"    {json.dumps(name)}: {_compact_json(definition)}"
        for name, definition in cast("Schema", definitions).items()
    )
    yield "\n  }\n}\n"


def _compact_json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
