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
from noetl_temporal.submission.unsupported import UnsupportedError

__all__ = ["Corpus", "Outcome"]

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


class Outcome(NamedTuple):
    """The outcome of a playbook, with the reason, and its differences from the table."""

    file: str
    status: str
    seconds: float
    reason: str
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

    async def compare(self, expected: Expected) -> Outcome:
        """Run a playbook in an empty database, after the playbook that it needs."""
        async with httpx.AsyncClient() as api:
            (await api.post(f"{self._api}/api/v1/flaky/reset")).raise_for_status()
        database = await asyncpg.connect(self._playbooks)
        try:
            await database.execute(EMPTY)
            if expected.after:
                await self._run(self._expected[expected.after])
            start = time.monotonic()
            status, reason = await self._run(expected)
            seconds = time.monotonic() - start
            return Outcome(
                expected.file,
                status,
                seconds,
                reason,
                [*differences_in_status(expected, status), *await differences_in_rows(expected, database)],
            )
        finally:
            await database.close()

    async def _run(self, expected: Expected) -> tuple[str, str]:
        """Return the status and the failures."""
        file = self._folder / expected.file
        era = self._folder / expected.file.partition("/")[0]
        try:
            handle = await self._client.submit(file, dict(expected.settings), playbooks=_playbook_folder(era, file))
        except (CompileError, UnsupportedError) as error:
            return "refused", str(error)
        try:
            report = await handle.wait(self._limit)
        except TimeoutError:
            with suppress(RunOverError):
                await handle.terminate("took too long")
            return "running", f"for {self._limit.total_seconds():g} s"
        return report.status, "; ".join(
            f"{failure.line}: {failure.step}: {failure.message}" for failure in report.failures.detailed[:3]
        )


def _playbook_folder(era: Path, file: Path) -> Path:
    """Upstream registers all playbooks of an era; a relative path is meant from the caller's folder."""
    return file.parent if "path: ./" in file.read_text(encoding="utf-8") else era


def differences_in_status(expected: Expected, status: str) -> list[str]:
    return [] if status == expected.status else [f"{status}, not {expected.status}"]


async def differences_in_rows(expected: Expected, database: asyncpg.Connection) -> list[str]:
    """Describe the tables with another number of rows."""
    problems: list[str] = []
    for table, count in expected.rows.items():
        try:
            rows: int | None = await database.fetchval(f"SELECT count(*) FROM {table}")
        except asyncpg.UndefinedTableError:
            rows = None
        if rows != count:
            problems.append(f"{table} has {'no table' if rows is None else rows}, not {count} rows")
    return problems
