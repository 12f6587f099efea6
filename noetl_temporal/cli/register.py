"""``noetl register``: add versions to the catalog."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from noetl_temporal.cli.catalog_playbook import catalog_dsn, entry_fields
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.exits import FAILED, WRONG
from noetl_temporal.cli.importing import importing
from noetl_temporal.cli.logging_setup import discard_log
from noetl_temporal.cli.printable_stream import echo_json
from noetl_temporal.cli.show_diagnostics import show_all_diagnostics

if TYPE_CHECKING:  # importing Temporal is slow
    from noetl_compiler.registration import Candidates
    from noetl_temporal.client import Registration

__all__ = ["register_command"]


@click.command("register")
@click.argument("paths", nargs=-1, required=True, metavar="FILE|FOLDER...", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def register_command(paths: tuple[Path, ...], as_json: bool) -> None:
    """Register playbooks in the catalog.

    A folder means all playbooks below it. If one of them does not compile, none is registered. The same text is the
    same version; a changed text is the next version of its path. Schedules that follow a path move to its newest
    version.

    \b
    noetl register playbook.yaml
    noetl register playbooks/
    noetl submit etl/load@3

    \b
    Exit status:
      0    all are registered
      1    all are registered, but a schedule could not move to its new version
      2    a playbook is wrong, or the command line; nothing was registered
    """
    with importing():
        candidates = _candidates(paths)
        running_deployment()
        discard_log()
    registration = asyncio.run(_register(catalog_dsn(), candidates))
    _show(registration, as_json=as_json)
    if any(move.problem for move in registration.moved):
        sys.exit(FAILED)


def _candidates(paths: tuple[Path, ...]) -> Candidates:
    from noetl_activities.installed_tools import installed_tools
    from noetl_compiler.registration import read_candidates

    for path in paths:
        if not os.path.exists(path):  # noqa: PTH110 - False also for what no file can be
            raise click.UsageError(f"no such file or folder: {str(path)!r}")
    candidates = read_candidates(paths, installed_tools())
    show_all_diagnostics(candidates.results, "nothing was registered")
    if candidates.problems:
        sys.exit(WRONG)
    if not candidates.playbooks:
        raise click.UsageError(f"there is no playbook below {', '.join(map(repr, map(str, paths)))}")
    return candidates


async def _register(dsn: str, candidates: Candidates) -> Registration:
    from noetl_temporal.client import NoetlClient, Registration
    from noetl_temporal.submission.catalog_store import register

    client = await NoetlClient.connect()
    playbooks = await register(dsn, candidates.playbooks)
    return Registration(playbooks, await client.schedules.move_to_newest(playbooks))


def _show(registration: Registration, *, as_json: bool) -> None:
    if as_json:
        playbooks = [
            {**entry_fields(playbook.entry), "is_new": playbook.is_new, "newest": playbook.newest}
            for playbook in registration.playbooks
        ]
        echo_json(
            msgspec.json.encode(
                {"playbooks": playbooks, "moved": [move._asdict() for move in registration.moved]}
            ).decode()
        )
    for playbook in () if as_json else registration.playbooks:
        newer = f"; the newest is {playbook.newest}" if playbook.newest != playbook.entry.version else ""
        click.echo(f"{'registered' if playbook.is_new else 'unchanged'}: {playbook.entry.name}{newer}")
    for move in registration.moved:
        before, after = f"{move.path}@{move.previous_version}", f"{move.path}@{move.version}"
        if move.problem:
            click.echo(
                f"schedule {move.schedule} stays at {before}, because {after} cannot run:\n{move.problem}", err=True
            )
        elif not as_json:
            click.echo(f"schedule {move.schedule}: moved from {before} to {after}")
