"""The catalog of registered playbooks, for the Python client and the commands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from pathlib import Path

from noetl_activities.installed_tools import installed_tools
from noetl_compiler.registration import read_candidates
from noetl_temporal.environment import NO_CATALOG
from noetl_temporal.runs import NoEventLogError
from noetl_temporal.submission.catalog_runs import compile_error
from noetl_temporal.submission.catalog_store import (
    CatalogEntry,
    RegisteredVersion,
    get_entry,
    list_newest,
    list_versions,
    register,
)

__all__ = ["PlaybookCatalog"]


class PlaybookCatalog:
    """The registered playbooks. Every method may raise NoEventLogError and DeploymentError."""

    def __init__(self, dsn: str | None) -> None:
        self._configured_dsn = dsn

    @property
    def dsn(self) -> str:
        """The DSN of the Postgres that stores the catalog. Raises NoEventLogError."""
        if self._configured_dsn is None:
            raise NoEventLogError(NO_CATALOG)
        return self._configured_dsn

    async def register(self, paths: Iterable[str | Path]) -> Sequence[RegisteredVersion]:
        """Register playbooks. Schedules do not follow: see NoetlClient.register."""
        files, dsn = [Path(path) for path in paths], self.dsn
        candidates = await asyncio.to_thread(read_candidates, files, installed_tools())
        if candidates.problems:
            raise compile_error(candidates.problems)
        if not candidates.playbooks:
            raise ValueError(f"there is no playbook below {', '.join(map(repr, map(str, files)))}")
        return await register(dsn, candidates.playbooks)

    async def get(self, path: str, version: int | None = None) -> CatalogEntry:
        """Return a version of a playbook, the newest unless one is named. Raises UnknownPlaybookError."""
        return await get_entry(self.dsn, path, version)

    async def list(self, path: str | None = None) -> Sequence[CatalogEntry]:
        """Return the newest version of each path, or of each with a prefix (``etl/*``)."""
        return await list_newest(self.dsn, None if path is None else path.removesuffix("*"))

    async def versions(self, path: str) -> Sequence[CatalogEntry]:
        """Return all versions of a path, the newest first."""
        return await list_versions(self.dsn, path)
