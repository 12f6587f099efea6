"""``noetl migrate``: rewrite playbooks of any dialect in canonical v10."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from noetl_activities.installed_tools import installed_tools
from noetl_compiler.migration import Migration, migrate_parsed
from noetl_compiler.printable import printable_line
from noetl_temporal.cli.exits import FAILED
from noetl_temporal.cli.output import path_below
from noetl_temporal.cli.printable_stream import echo_document
from noetl_temporal.cli.rewrite_files import rewrite, unified_diff
from noetl_temporal.cli.show_diagnostics import show_diagnostics
from noetl_temporal.cli.sources import parsed_playbooks

__all__ = ["migrate_command"]

_NOTHING_WRITTEN = "nothing was written"


@click.command("migrate")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER|-...", type=click.Path())
@click.option("--write", "in_place", is_flag=True, help="Rewrite the files instead of printing.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Write to this file, or this folder if there are several playbooks.",
)
@click.option("--check", is_flag=True, help="Write nothing; exit with status 1 if a file would change.")
@click.option("--diff", is_flag=True, help="Write nothing; print what would change.")
def migrate_command(paths: tuple[str, ...], in_place: bool, output: Path | None, check: bool, diff: bool) -> None:
    """Rewrite playbooks in canonical v10, keeping their comments.

    A folder means all playbooks below it, - means stdin. The result compiles to the same graph. Extensions that it
    needs, and keys that are dropped because they have no effect, are listed on stderr. A playbook in canonical form is
    not changed. The exit status is 1 if a file has errors; that file is not written.

    \b
    noetl migrate old.yaml -o new.yaml
    noetl migrate playbooks/ --write                         rewrite them all
    noetl migrate playbooks/ --check --diff                  in CI: exits with 1 if a file would change
    """
    is_dry = check or diff
    if in_place and (output or "-" in paths):
        raise click.UsageError("--write rewrites files in place: it needs files, and excludes -o")
    if is_dry and (in_place or output):
        raise click.UsageError("--check and --diff write nothing: they exclude --write and -o")
    migrations = [migrate_parsed(playbook) for playbook in parsed_playbooks(paths, installed_tools())]
    if len(migrations) > 1 and not (is_dry or in_place or output):
        raise click.UsageError("several playbooks need --write, -o FOLDER, --check or --diff")
    for migration in migrations:
        _report_notes(migration)
    if is_dry:
        _show_changes(migrations, diff=diff)
    else:
        _write(migrations, paths, output, in_place=in_place)
    would_change = check and any(migration.is_changed for migration in migrations)
    sys.exit(FAILED if would_change or any(migration.text is None for migration in migrations) else 0)


def _report_notes(migration: Migration) -> None:
    """Print the errors of a playbook, and the notes about what its new form drops or writes as extensions."""
    file = migration.source.file
    if migration.compilation.graph is None:
        show_diagnostics(migration.compilation, _NOTHING_WRITTEN)
    for note in migration.notes if migration.is_changed or migration.defect else ():
        click.echo(printable_line(f"{file}:{note.span.line}:{note.span.col}: note: {note.message}"), err=True)
    if migration.defect:
        problem = f"the rewritten playbook would compile to another graph ({migration.defect}): {_NOTHING_WRITTEN}"
        click.echo(printable_line(f"{file}: {problem}; this is a bug, please report it with the playbook"), err=True)


def _show_changes(migrations: Sequence[Migration], *, diff: bool) -> None:
    for migration in migrations:
        if migration.text is None or not migration.is_changed:
            continue
        if diff:
            click.echo(unified_diff(migration.source.file, migration.source.text, migration.text), nl=False)
        else:
            click.echo(printable_line(f"{migration.source.file}: would be rewritten"))


def _write(migrations: Sequence[Migration], paths: Sequence[str], output: Path | None, *, in_place: bool) -> None:
    for migration in migrations:
        if migration.text is None:
            continue
        if in_place and migration.is_changed:
            rewrite(Path(migration.source.file), migration.text, _named_folder(Path(migration.source.file), paths))
        elif output is not None and (len(migrations) > 1 or output.is_dir()):
            rewrite(path_below(output, migration.source.file), migration.text, output)
        elif output is not None:
            rewrite(output, migration.text, output.parent)
        elif not in_place:
            echo_document(migration.text)


def _named_folder(file: Path, paths: Sequence[str]) -> Path:
    """Return the folder on the command line that contains the file; for a file on the command line, its own folder."""
    return next((Path(path) for path in paths if Path(path).is_dir() and file.is_relative_to(path)), file.parent)
