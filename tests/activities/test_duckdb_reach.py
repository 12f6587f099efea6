"""What SQL of a playbook reaches through DuckDB: the files of its execution's folder, those of directories that the
deployment names, and nothing else.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from dev.attack.duckdb_site import DATABASES, HAS_LANDLOCK, LOCKED, LOGGED, READS, SECRET, WRITES, Site, plain
from noetl_activities.duckdb import tool as duckdb_tool
from noetl_activities.errors import ConfigError, RefusedError, ToolError
from noetl_activities.outcome import Outcome
from noetl_activities.sinks import Entry, OutcomeLookup, SinkRequest, find_outcome, store
from noetl_activities.variables import DUCKDB_DIRECTORIES_VARIABLE

from .conftest import Context, request


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    site = Site(tmp_path)
    monkeypatch.setenv("NOETL_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(DUCKDB_DIRECTORIES_VARIABLE, str(site.named))
    monkeypatch.setenv("CANARY", SECRET)
    return site


async def run(sql: str, **config: Any) -> Outcome:
    return await duckdb_tool.TOOL.run(request("duckdb", command=sql, **config), Context())


@pytest.mark.parametrize("sql", READS)
async def test_files_outside_are_not_read(site: Site, sql: str) -> None:
    outcome = await run(site.sql(sql))
    assert outcome.error is not None, outcome.result
    assert outcome.error.code == "PermissionException"
    assert "NOETL_DUCKDB_DIRECTORIES" in outcome.error.message
    assert SECRET not in outcome.error.message


@pytest.mark.parametrize("sql", READS)
def test_control_without_the_guard_they_are(site: Site, sql: str) -> None:
    if sql == READS[0]:
        assert "PATH" in str(plain(site, sql))
    else:
        assert any(word in str(plain(site, sql)) for word in (SECRET, "secret.csv", "value"))


@pytest.mark.parametrize("sql", WRITES)
async def test_files_outside_are_not_written(site: Site, sql: str) -> None:
    outcome = await run(site.sql(sql))
    assert outcome.error is not None, outcome.result
    assert outcome.error.code in ("PermissionException", "InvalidInputException", "IOException")
    assert site.content() == site.before


@pytest.mark.parametrize("sql", WRITES)
def test_control_without_the_guard_they_are_written(site: Site, sql: str) -> None:
    plain(site, sql)
    assert site.content() != site.before


@pytest.mark.parametrize("sql", LOCKED)
async def test_nothing_is_fetched_and_no_limit_is_lifted(site: Site, sql: str) -> None:
    outcome = await run(site.sql(sql))
    assert outcome.error is not None, outcome.result
    assert not outcome.error.retryable
    assert site.content() == site.before


async def test_refusals_have_a_message(site: Site) -> None:
    for sql, words in (
        ("load httpfs", "only extensions built into DuckDB are available"),
        ("set memory_limit = '9GB'", "a playbook may not change this setting"),
    ):
        outcome = await run(sql)
        assert outcome.error is not None
        assert words in outcome.error.message


async def test_the_allowed_directories_are_listed(site: Site) -> None:
    allowed_paths = (
        f"DuckDB may use files only in {site.folder}, {site.named}; to allow another directory, add its absolute path "
        "to NOETL_DUCKDB_DIRECTORIES of the worker"
    )
    outcome = await run("from read_text('/etc/passwd')")
    assert outcome.error is not None
    message, _, statement = outcome.error.message.partition("\n\n")
    assert message.startswith('Permission Error: Cannot access file "/etc/passwd"')
    assert allowed_paths in message
    assert "LINE 1: from read_text('/etc/passwd')" in statement
    with pytest.raises(RefusedError) as refusal:
        await run("select 1", database="/etc/other.duckdb")
    assert str(refusal.value).startswith(f"the DuckDB file '/etc/other.duckdb' is not allowed: {allowed_paths}")


async def test_the_allowed_directories_are_listed_for_a_database_of_the_deployment(site: Site) -> None:
    outcome = await run(site.sql("from '{folder}/own.csv'"), database=str(site.named / "w.duckdb"))
    assert outcome.error is not None
    assert f"(DuckDB may use files only in {site.named}; " in outcome.error.message


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("from 'own.csv'", [{"a": 1}]),
        ("from '{folder}/own.csv'", [{"a": 1}]),
        ("from '{named}/shared.csv'", [{"a": 2}]),
        ("copy (select 3 as a) to 'made.parquet'; from 'made.parquet'", [{"a": 3}]),
        ("copy (select 4 as a) to '{named}/made.csv'; from '{named}/made.csv'", [{"a": 4}]),
        ("create table t as select 5 as a; export database 'all'; from 'all/t.csv'", [{"a": 5}]),
        ("attach 'more.duckdb' as o; create table o.t as select 6 as a; from o.t", [{"a": 6}]),
        ("attach ':memory:' as o; create table o.t as select 7 as a; from o.t", [{"a": 7}]),
        ("set threads = 2; set TimeZone = 'Asia/Tokyo'; select '2026-01-01 00:00+00'::timestamptz::text as a",
         [{"a": "2026-01-01 09:00:00+09"}]),
    ],
)  # fmt: skip
async def test_files_of_the_execution_and_of_the_deployment_are_used(
    site: Site, sql: str, rows: list[dict[str, Any]]
) -> None:
    outcome = await run(site.sql(sql))
    assert outcome.error is None, outcome.error
    assert outcome.result["rows"] == rows


@pytest.mark.parametrize("database", DATABASES)
async def test_a_database_elsewhere_is_refused_to_tool_and_sink(site: Site, database: str) -> None:
    config = {"database": site.sql(database), "table": "t", "data": [{"a": 1}]}
    for call in (
        run("select 1", database=site.sql(database)),
        store(SinkRequest("duckdb", config, "append", Entry("42/k/sink0")), Context()),
        find_outcome(OutcomeLookup("duckdb", config, None, "42/k", 1), Context()),
    ):
        with pytest.raises((RefusedError, ConfigError)):
            await call
    assert site.content() == site.before


@pytest.mark.skipif(not HAS_LANDLOCK, reason="the kernel has no landlock")
async def test_a_link_that_duckdb_itself_follows_is_stopped_by_the_kernel(site: Site) -> None:
    outcome = await run(site.sql(LOGGED))
    assert outcome.error is not None, outcome.result
    assert site.content() == site.before


def test_control_without_a_guard_it_is_followed(site: Site) -> None:
    plain(site, LOGGED)
    assert site.content() != site.before


async def test_a_database_of_the_deployment_reaches_its_directories_alone(site: Site) -> None:
    outcome = await run("from 'shared.csv'", database=str(site.named / "w.duckdb"))
    assert outcome.result["rows"] == [{"a": 2}]
    refused = await run(site.sql("from '{folder}/own.csv'"), database=str(site.named / "w.duckdb"))
    assert refused.error is not None


@pytest.mark.parametrize("database", ["x.duckdb", ":memory:", "md:x", "s3://bucket/x", "postgres:host=127.0.0.1"])
async def test_any_other_name_is_a_file_of_the_execution(site: Site, database: str) -> None:
    if "/" in database:
        (site.folder / "s3:" / "bucket").mkdir(parents=True)
    outcome = await run("create table t as select 1 as a; from t", database=database)
    assert outcome.error is None
    assert outcome.result["rows"] == [{"a": 1}]


async def test_each_execution_has_a_folder_that_only_its_owner_enters(site: Site) -> None:
    request_ = request("duckdb", command="select 1")
    for execution in ("43", ""):
        outcome = await duckdb_tool.TOOL.run(
            type(request_)("duckdb", request_.config, execution_id=execution), Context()
        )
        folder = Path(outcome.result["database_path"]).parent
        assert (folder.name, (await asyncio.to_thread(folder.stat)).st_mode & 0o777) == (execution or "adhoc", 0o700)


@pytest.mark.parametrize("execution", ["..", "a/b", "../42", "\0", "x" * 101])
async def test_an_execution_that_is_not_a_name_is_refused(site: Site, execution: str) -> None:
    request_ = request("duckdb", command="select 1")
    with pytest.raises(ConfigError):
        await duckdb_tool.TOOL.run(type(request_)("duckdb", request_.config, execution_id=execution), Context())


@pytest.mark.parametrize(
    ("name", "value"),
    [(DUCKDB_DIRECTORIES_VARIABLE, "relative"), ("NOETL_DUCKDB_MEMORY", "lots"), ("NOETL_DUCKDB_MEMORY", "nan")],
)
async def test_a_wrong_setting_of_the_worker_is_reported(
    site: Site, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ToolError, match=f"{name} of the worker"):
        await run("select 1")


@pytest.mark.parametrize("name", ["NOETL_CREDENTIALS", "NOETL_HOME"])
async def test_a_directory_with_secrets_of_the_worker_is_refused(
    site: Site, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (site.folder / "link").symlink_to(site.named)
    monkeypatch.setenv(name, str(site.folder / "link" / "credentials.yaml"))
    with pytest.raises(ConfigError, match=r"contains .*credentials\.yaml: move it"):
        await run("from 'credentials.yaml'")


async def test_without_a_home_nothing_is_kept_in_the_current_folder(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOETL_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.chdir(site.outside)
    outcome = await run("select 1")
    assert Path(outcome.result["database_path"]).is_relative_to(
        tmp_path / ("data" if os.uname()[0] != "Darwin" else "user")
    )
    assert site.content() == site.before
