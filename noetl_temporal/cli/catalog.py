"""``noetl catalog``: the playbooks that are registered."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click
import msgspec
from rich.table import Table

from noetl_temporal.cli.catalog_playbook import catalog_dsn, entry_fields, find_entry
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.console import print_table
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.cli.printable_stream import echo_document, echo_json
from noetl_temporal.utc_time import utc_cell

if TYPE_CHECKING:  # importing the database driver is slow
    from noetl_temporal.submission.catalog_store import CatalogEntry

__all__ = ["catalog_group"]

DIGEST_CHARACTERS = 12
"""Characters of a digest in a table."""

T = TypeVar("T")


@click.group("catalog")
def catalog_group() -> None:
    """Show the registered playbooks, their versions and their source.

    \b
    noetl catalog list
    noetl catalog list etl/load
    noetl catalog show etl/load@3
    noetl catalog diff etl/load@2 etl/load@3
    """


@catalog_group.command("list", short_help="List playbooks, or the versions of one.")
@click.argument("path", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line and version.")
def list_command(path: str | None, as_json: bool) -> None:
    """List the newest version of each playbook, or all versions of PATH.

    \b
    noetl catalog list
    noetl catalog list 'etl/*'
    noetl catalog list etl/load --json
    """

    async def query_entries(dsn: str) -> list[CatalogEntry]:
        from noetl_temporal.submission.catalog_store import list_newest, list_versions

        if path is None or path.endswith("*"):
            return await list_newest(dsn, path and path.removesuffix("*"))
        return await list_versions(dsn, path)

    entries = _run_query(query_entries)
    if as_json:
        for entry in entries:
            echo_json(msgspec.json.encode(entry_fields(entry)).decode())
    elif entries:
        print_table(_table(entries))
    else:
        click.echo("no playbook is registered" + (f" with the path {path}" if path else ""), err=True)


@catalog_group.command("show")
@click.argument("name", metavar="PATH[@VERSION]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with the source in content.")
def show_command(name: str, as_json: bool) -> None:
    """Print the source of a version; the newest by default.

    \b
    noetl catalog show etl/load
    noetl catalog show etl/load@3 > load.yaml
    """
    entry = _run_query(lambda dsn: find_entry(dsn, name))
    if as_json:
        echo_json(msgspec.json.encode(entry).decode())
    else:
        echo_document(entry.content)


@catalog_group.command("diff", short_help="Compare two versions of a playbook.")
@click.argument("old", metavar="PATH[@VERSION]")
@click.argument("new", metavar="[PATH@VERSION|FILE]", required=False)
def diff_command(old: str, new: str | None) -> None:
    """Show the difference between a version and another, the newest, or a FILE.

    \b
    noetl catalog diff etl/load@2               from version 2 to the newest
    noetl catalog diff etl/load@2 etl/load@3
    noetl catalog diff etl/load playbook.yaml   from the newest version to the file
    """
    file = Path(new) if new is not None and Path(new).is_file() else None
    if new is None and "@" not in old:
        raise click.UsageError("name two versions, or a version and a file: noetl catalog diff PATH@VERSION [FILE]")

    async def read_texts(dsn: str) -> list[tuple[str, str]]:
        from noetl_temporal.submission.catalog_store import split_version

        entries = [await find_entry(dsn, old)]
        if file is None:
            entries.append(await find_entry(dsn, new or split_version(old)[0]))
        return [(entry.name, entry.content) for entry in entries]

    versions = _run_query(read_texts)
    if file is not None:
        versions.append((str(file), _read_text(file)))
    (old_name, old_text), (new_name, new_text) = versions
    lines = difflib.unified_diff(old_text.splitlines(), new_text.splitlines(), old_name, new_name, lineterm="")
    echo_document("".join(f"{line}\n" for line in lines))


def _read_text(file: Path) -> str:
    from noetl_compiler.reader import read_file

    source, unreadable = read_file(file)
    if unreadable:
        raise click.UsageError(f"{file}: {unreadable[0].message}")
    return source.text


def _run_query(query: Callable[[str], Awaitable[T]]) -> T:
    running_deployment()
    discard_log()
    dsn = catalog_dsn()

    async def run_query() -> T:
        return await query(dsn)

    return asyncio.run(run_query())


def _table(entries: Sequence[CatalogEntry]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("playbook", "registered (UTC)", "digest", "from"):
        table.add_column(name, no_wrap=True)
    for entry in entries:
        table.add_row(entry.name, utc_cell(entry.registered_at), entry.digest[:DIGEST_CHARACTERS], entry.file)
    return table
