"""Runs playbooks of the corpus one after the other and compares them with the table."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import asyncpg
import httpx

from dev.corpus_runs.table import Expected
from noetl_compiler import CompileError
from noetl_temporal.client import NoetlClient
from noetl_temporal.runs import RunOverError
from noetl_temporal.unsupported import UnsupportedError

__all__ = ["Corpus", "Ended"]

EMPTY = """
DO $$
DECLARE found record;
BEGIN
  FOR found IN SELECT schemaname, tablename FROM pg_tables
               WHERE tableowner = current_user AND schemaname NOT IN ('noetl', 'pg_catalog', 'information_schema')
  LOOP
    EXECUTE format('DROP TABLE IF EXISTS %I.%I CASCADE', found.schemaname, found.tablename);
  END LOOP;
END $$
"""


class Ended(NamedTuple):
    """How a playbook ended, with the reasons, and what differs from the table."""

    file: str
    status: str
    seconds: float
    why: str
    differences: list[str]


class Corpus:
    """The playbooks below ``folder``. ``playbooks`` is the DSN of their database, ``api`` the address of the server
    that they call, ``limit`` the seconds that a run may take.
    """

    def __init__(
        self,
        client: NoetlClient,
        folder: Path,
        playbooks: str,
        api: str,
        expected: Mapping[str, Expected],
        limit: float,
    ) -> None:
        self._client, self._folder, self._playbooks, self._api = client, folder, playbooks, api
        self._expected, self._limit = expected, timedelta(seconds=limit)

    async def compare(self, wanted: Expected) -> Ended:
        """Run it in an empty database, after the one that it needs."""
        async with httpx.AsyncClient() as api:
            (await api.post(f"{self._api}/api/v1/flaky/reset")).raise_for_status()
        database = await asyncpg.connect(self._playbooks)
        try:
            await database.execute(EMPTY)
            if wanted.after:
                await self._run(self._expected[wanted.after])
            began = time.monotonic()
            status, why = await self._run(wanted)
            seconds = time.monotonic() - began
            return Ended(
                wanted.file,
                status,
                seconds,
                why,
                [*differences_in_status(wanted, status), *await differences_in_rows(wanted, database)],
            )
        finally:
            await database.close()

    async def _run(self, wanted: Expected) -> tuple[str, str]:
        """The status, and what failed."""
        file = self._folder / wanted.file
        era = self._folder / wanted.file.partition("/")[0]
        try:
            handle = await self._client.submit(file, dict(wanted.settings), playbooks=_playbook_folder(era, file))
        except (CompileError, UnsupportedError) as error:
            return "refused", str(error)
        try:
            report = await handle.wait(self._limit)
        except TimeoutError:
            with suppress(RunOverError):
                await handle.terminate("took too long")
            return "running", f"for {self._limit.total_seconds():g} s"
        return report.status, "; ".join(
            f"{failure.line}: {failure.step}: {failure.message}" for failure in report.failures.kept[:3]
        )


def _playbook_folder(era: Path, file: Path) -> Path:
    """Upstream registers all playbooks of an era; a relative path is meant from the caller's folder."""
    return file.parent if "path: ./" in file.read_text(encoding="utf-8") else era


def differences_in_status(wanted: Expected, status: str) -> list[str]:
    return [] if status == wanted.status else [f"{status}, not {wanted.status}"]


async def differences_in_rows(wanted: Expected, database: asyncpg.Connection) -> list[str]:
    """Tables with another number of rows."""
    problems: list[str] = []
    for table, count in wanted.rows.items():
        try:
            rows: int | None = await database.fetchval(f"SELECT count(*) FROM {table}")
        except asyncpg.UndefinedTableError:
            rows = None
        if rows != count:
            problems.append(f"{table} has {'no table' if rows is None else rows}, not {count} rows")
    return problems
