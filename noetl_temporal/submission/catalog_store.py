"""Stores registered playbooks in noetl.catalog. The versions of a path are numbered; the same text is the same version.

The mirror adds the texts of runs to the same table. A row is a version of the catalog only if it has a time in
``registered_at``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import asyncpg
import msgspec

from noetl_compiler.diagnostics import did_you_mean
from noetl_compiler.registration import Candidate
from noetl_compiler.source import SourceFile
from noetl_temporal.connection_pools import Connection, run_on_pool
from noetl_temporal.database_errors import DATABASE_ERRORS
from noetl_temporal.deployment import postgres_error
from noetl_temporal.mirror import sql
from noetl_temporal.mirror.migrations import migrate

__all__ = [
    "NEWEST",
    "CatalogEntry",
    "RegisteredVersion",
    "UnknownPlaybookError",
    "find_entries",
    "get_entry",
    "list_newest",
    "list_versions",
    "register",
    "split_version",
]

NEWEST = "latest"
"""The word for the newest version."""

MAX_VERSION_DIGITS = 9
"""Postgres stores versions as integers of 32 bits."""

T = TypeVar("T")


class UnknownPlaybookError(LookupError):
    """The catalog does not have this playbook, or not in this version."""


class CatalogEntry(msgspec.Struct, frozen=True):
    """A version of a playbook. ``digest`` is the sha256 of its text, ``file`` the file from which it was registered."""

    path: str
    version: int
    digest: str
    registered_at: datetime
    file: str
    content: str

    @property
    def name(self) -> str:
        """``path@version``."""
        return f"{self.path}@{self.version}"

    @property
    def source(self) -> SourceFile:
        """The text, with its name in the catalog for locations."""
        return SourceFile(self.name, self.content)


class RegisteredVersion(NamedTuple):
    """The result of registering a text. ``is_new`` is False if the text was registered before. ``newest`` is the newest
    version of the path.
    """

    entry: CatalogEntry
    is_new: bool
    newest: int


def split_version(text: str) -> tuple[str, int | None]:
    """Return the path and the version of ``path@version``; None without a version, or for ``latest``."""
    path, _, version = text.rpartition("@")
    if path and version.isdecimal() and len(version) <= MAX_VERSION_DIGITS:
        return path, int(version)
    return (path, None) if path and version == NEWEST else (text, None)


async def register(dsn: str, playbooks: Sequence[Candidate]) -> list[RegisteredVersion]:
    """Register all playbooks in one transaction. Raises DeploymentError."""

    async def insert(connection: Connection) -> list[RegisteredVersion]:
        async with connection.transaction():
            paths = {playbook.graph.source.path for playbook in playbooks}
            for path in sorted(paths):  # all transactions lock in the same order, which prevents deadlocks
                await connection.execute(sql.query("lock_path"), path)
            return [await _register(connection, playbook) for playbook in playbooks]

    return await _run_or_migrate(dsn, insert)


async def _register(connection: Connection, playbook: Candidate) -> RegisteredVersion:
    source = playbook.graph.source
    digest = hashlib.sha256(playbook.text.encode()).hexdigest()
    meta = {**msgspec.to_builtins(source), "digest": playbook.graph.digest}
    values = source.path, digest, playbook.text
    existing = await connection.fetchrow(sql.query("registered_text"), *values)
    record = existing
    for statement in ("register_row", "register_text"):  # the row of a text that was run, else a new row
        if record is None:
            record = await connection.fetchrow(sql.query(statement), *values, msgspec.json.encode(meta).decode())
    newest = await connection.fetchrow(sql.query("registered"), [source.path], [None])
    assert record is not None and newest is not None  # noqa: S101, PT018 - the path has at least this version
    return RegisteredVersion(_entry(record), existing is None, newest["version"])


async def find_entries(dsn: str, names: Iterable[tuple[str, int | None]]) -> dict[tuple[str, int | None], CatalogEntry]:
    """Return the registered entries of these paths and versions; None is the newest. Raises DeploymentError."""
    requested = list(dict.fromkeys(names))
    columns = [path for path, _ in requested], [version for _, version in requested]
    entries = [_entry(row) for row in await _fetch(dsn, "registered", *columns)]
    exact = {(entry.path, entry.version): entry for entry in entries}
    newest = {entry.path: entry for entry in sorted(entries, key=lambda entry: entry.version)}
    by_name = {
        name: exact.get((name[0], name[1])) if name[1] is not None else newest.get(name[0]) for name in requested
    }
    return {name: entry for name, entry in by_name.items() if entry is not None}


async def get_entry(dsn: str, path: str, version: int | None = None) -> CatalogEntry:
    """Return a version of a playbook, the newest unless one is named. Raises UnknownPlaybookError, DeploymentError."""
    entries = await find_entries(dsn, [(path, version)]) if path.isprintable() else {}
    if entries:
        return entries[path, version]
    existing = await list_versions(dsn, path) if path.isprintable() else []
    if existing:
        versions = ", ".join(str(entry.version) for entry in reversed(existing))
        raise UnknownPlaybookError(f"the catalog has no version {version} of {path!r}; it has {versions}")
    paths = [record["path"] for record in await _fetch(dsn, "registered_paths")]
    hint = did_you_mean(path, paths) or "`noetl catalog list` shows what it has, `noetl register FILE` adds to it"
    raise UnknownPlaybookError(f"the catalog has no playbook {path!r}: {hint}")


async def list_newest(dsn: str, prefix: str | None = None) -> list[CatalogEntry]:
    """Return the newest version of each path, or of each path with this prefix. Raises DeploymentError."""
    return [_entry(row) for row in await _fetch(dsn, "registered_newest", prefix)]


async def list_versions(dsn: str, path: str) -> list[CatalogEntry]:
    """Return all versions of a path, the newest first. Raises DeploymentError."""
    return [_entry(row) for row in await _fetch(dsn, "registered_versions", path)]


async def _fetch(dsn: str, statement: str, *values: Any) -> list[asyncpg.Record]:
    async def fetch(connection: Connection) -> list[asyncpg.Record]:
        return await connection.fetch(sql.query(statement), *values)

    return await _run_or_migrate(dsn, fetch)


async def _run_or_migrate(dsn: str, operation: Callable[[Connection], Awaitable[T]]) -> T:
    try:
        try:
            return await run_on_pool(dsn, operation)
        except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError, asyncpg.UndefinedColumnError):
            await migrate(dsn)
            return await run_on_pool(dsn, operation)
    except DATABASE_ERRORS as error:
        raise postgres_error(error, dsn) from error


def _entry(record: asyncpg.Record) -> CatalogEntry:
    meta: dict[str, Any] = msgspec.json.decode(record["meta"])
    return CatalogEntry(
        record["path"],
        record["version"],
        record["digest"],
        record["registered_at"],
        meta["file"],
        record["content"],
    )
