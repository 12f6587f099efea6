"""``noetl migrate``: write a playbook of any dialect anew in canonical v10."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import click

from noetl_compiler import Result
from noetl_compiler.diagnostics import printable
from noetl_compiler.emission import Migration, migrate
from noetl_compiler.reader import read_file
from noetl_temporal.cli.findings import show_findings
from noetl_temporal.cli.sources import stdin_source

__all__ = ["migrate_command"]

_NOTHING = "nothing was written"


@click.command("migrate")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), metavar="FILE|-")
@click.option("--write", "in_place", is_flag=True, help="Rewrite FILE instead of printing.")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Write to this file.")
def migrate_command(file: str, in_place: bool, output: Path | None) -> None:
    """Write the playbook FILE anew in canonical v10, with its comments; - stands for stdin.

    The result means the same. What v10 has no form for, and what is left out, is told on stderr. A playbook that
    already is canonical stays as it is. The exit status is 1 when FILE has errors; then nothing is written.
    """
    if in_place and (output or file == "-"):
        raise click.UsageError("--write rewrites FILE itself: it goes with a file and without -o")
    migration = _migrated(file)
    _tell(migration)
    if migration.text is None:
        sys.exit(1)
    target = Path(file) if in_place else output
    if target is None:
        click.echo(migration.text, nl=False)
    else:
        _write(target, migration.text)


def _migrated(file: str) -> Migration:
    if file != "-":
        source, unreadable = read_file(Path(file))
        return Migration(Result(None, tuple(unreadable), source)) if unreadable else migrate(source)
    return migrate(stdin_source())


def _tell(migration: Migration) -> None:
    file = migration.compiled.source.file
    if migration.compiled.graph is None:
        show_findings(migration.compiled, _NOTHING)
    for note in migration.notes:
        click.echo(printable(f"{file}:{note.span.line}:{note.span.col}: note: {note.message}"), err=True)
    if migration.defect:
        what = f"written anew, it would mean something else ({migration.defect}): {_NOTHING}"
        click.echo(printable(f"{file}: {what}; this is a bug, please report it with the playbook"), err=True)


def _write(target: Path, text: str) -> None:
    """All or nothing: a playbook is never left half written."""
    target = target.resolve()
    beside = target.with_name(f".{target.name}.new")
    try:
        beside.write_text(text, encoding="utf-8", newline="")
        if target.exists():
            shutil.copymode(target, beside)
        beside.replace(target)
    except OSError as error:
        raise click.ClickException(f"cannot write {target}: {(error.strerror or str(error)).lower()}") from None
