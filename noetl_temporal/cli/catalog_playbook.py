"""A playbook of the catalog on the command line: ``path@version``, or ``path@latest``."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from noetl_compiler.graph import Json
from noetl_temporal.cli.connection import running_deployment
from noetl_temporal.cli.exits import WRONG
from noetl_temporal.cli.playbook import NOTHING_STARTED, Playbook
from noetl_temporal.cli.show_diagnostics import credential_spans, show_diagnostics
from noetl_temporal.environment import NO_CATALOG, dsn_from_environment
from noetl_temporal.stack.errors import NotStartedError, StackError, WrongArgumentError

if TYPE_CHECKING:  # importing the database driver is slow
    from noetl_compiler import Result
    from noetl_temporal.submission.catalog_store import CatalogEntry

__all__ = [
    "catalog_dsn",
    "entry_fields",
    "find_entry",
    "is_registered",
    "read_registered",
    "refuse_path_without_version",
]


def is_registered(file: Path) -> bool:
    """Whether an argument is a version of the catalog rather than a file."""
    return "@" in str(file) and not os.path.exists(file)  # noqa: PTH110 - False, too, for strings that cannot be a path


def refuse_path_without_version(argument: Path, command: str) -> None:
    """Raise NotStartedError if ``argument`` names no file, but is the path of a registered playbook."""
    path = str(argument)
    if path == "-" or not path.isprintable() or os.path.exists(argument):  # noqa: PTH110 - as in is_registered
        return
    newest = _newest_version(path)
    if newest is not None:
        raise NotStartedError(
            f"there is no file {path!r}, but a registered playbook has this path; to run its newest version: "
            f"noetl {command} {path}@{newest}. Nothing was started"
        )


def _newest_version(path: str) -> int | None:
    """Return the newest version of a registered path; None if there is none, or no catalog that can be read."""
    try:
        running_deployment()
    except StackError:
        return None
    from noetl_temporal.deployment import DeploymentError
    from noetl_temporal.submission.catalog_store import list_versions

    try:
        versions = asyncio.run(list_versions(catalog_dsn(), path))
    except (StackError, DeploymentError):
        return None
    return versions[0].version if versions else None


def catalog_dsn() -> str:
    """Return the DSN of the catalog's database from the environment. Raises StackError."""
    dsn = dsn_from_environment()
    if dsn is None:
        raise StackError(NO_CATALOG)
    return dsn


def entry_fields(entry: CatalogEntry) -> dict[str, object]:
    """Return the fields of a version for JSON output, without its source."""
    fields = msgspec.structs.asdict(entry)
    del fields["content"]
    return fields


def read_registered(name: str, request: Mapping[str, Json], credentials: Path | None = None) -> Playbook:
    """Compile a version for a run with this request, and print its diagnostics to stderr.

    Exits with WRONG if it has errors. ``credentials`` is the file with those of its scripts. Raises NotStartedError,
    DeploymentError."""
    dsn = catalog_dsn()
    playbook, results = asyncio.run(_read(dsn, name, request, credentials))
    for result in results:
        show_diagnostics(result, NOTHING_STARTED)
    if playbook is None:
        sys.exit(WRONG)
    return playbook


async def _read(
    dsn: str, name: str, request: Mapping[str, Json], credentials: Path | None
) -> tuple[Playbook | None, tuple[Result, ...]]:
    from noetl_temporal.submission.catalog_runs import pin_called_playbooks
    from noetl_temporal.submission.compiling import compile_to_run

    entry = await find_entry(dsn, name, NotStartedError)
    result = await asyncio.to_thread(compile_to_run, entry.source, request, credentials)  # scripts are fetched
    if result.graph is None:
        return None, (result,)
    calls, problems = await pin_called_playbooks(dsn, entry, result.graph)
    if problems:
        return None, problems
    return Playbook(result.graph, entry.content, credential_spans(result), calls), (result,)


async def find_entry(dsn: str, name: str, error_type: type[StackError] = WrongArgumentError) -> CatalogEntry:
    """Return the version with this name, ``path@version``. Raises ``error_type`` if there is none, DeploymentError."""
    from noetl_temporal.submission.catalog_store import UnknownPlaybookError, get_entry, split_version

    try:
        return await get_entry(dsn, *split_version(name))
    except UnknownPlaybookError as error:
        raise error_type(str(error)) from None
