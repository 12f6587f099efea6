"""Files around a playbook's DuckDB, and SQL that tries to access files outside its folder."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import duckdb

from noetl_activities.isolation import landlock

__all__ = ["DATABASES", "HAS_LANDLOCK", "LOCKED", "LOGGED", "READS", "SECRET", "WRITES", "Site", "plain"]

HAS_LANDLOCK = sys.platform == "linux" and landlock.abi() > 0
"""It alone stops DuckDB from following a link that lies beside a database under the name of its log (LOGGED)."""

SECRET = "canary-4711"


class Site:
    """A worker's home with the folder of execution 42, a directory that the deployment names, and one outside."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "home" / "duckdb" / "42"
        self.named = root / "named"
        self.outside = root / "outside"
        self.beside = root / "home" / "duckdb" / "421"
        for folder in (self.folder, self.named, self.outside, self.beside):
            folder.mkdir(parents=True)
        for folder in (self.outside, self.beside):
            (folder / "secret.csv").write_text(f"name,value\npassword,{SECRET}\n")
        with duckdb.connect(str(self.outside / "other.duckdb")) as connection:
            connection.execute(f"create table secret as select '{SECRET}' as value")
        (self.folder / "own.csv").write_text("a\n1\n")
        (self.named / "shared.csv").write_text("a\n2\n")
        (self.folder / "link.csv").symlink_to(self.outside / "secret.csv")
        (self.folder / "relative.csv").symlink_to("../../../outside/secret.csv")
        (self.folder / "linked").symlink_to(self.outside)
        (self.folder / "linked.duckdb").symlink_to(self.outside / "other.duckdb")
        (self.folder / "logged.duckdb.wal").symlink_to(self.outside / "written")
        self.before = self.content()

    def content(self) -> dict[str, bytes]:
        """The files outside."""
        return {str(path): path.read_bytes() for path in self.outside.rglob("*") if path.is_file()}

    def sql(self, text: str) -> str:
        return text.format(
            folder=self.folder, named=self.named, outside=self.outside, beside=self.beside, secret=SECRET
        )


READS = [
    "select content from read_text('/proc/self/environ')",
    "select content from read_text('{outside}/secret.csv')",
    "from '{outside}/secret.csv'",
    "from read_csv('file://{outside}/secret.csv')",
    "from '{beside}/secret.csv'",
    "from '{folder}/../421/secret.csv'",
    "from '{folder}/link.csv'",
    "from '{folder}/relative.csv'",
    "from '{folder}/linked/secret.csv'",
    "from read_csv(['{folder}/own.csv', '{outside}/secret.csv'], union_by_name = true)",
    "create table t (name varchar, value varchar); copy t from '{outside}/secret.csv'; from t",
    "from glob('{outside}/sec*')",
    "from glob('{folder}/linked/sec*')",
    "from sniff_csv('{outside}/secret.csv')",
    "attach '{outside}/other.duckdb' as o (read_only); from o.secret",
    "attach '{folder}/linked.duckdb' as o (read_only); from o.secret",
]

WRITES = [
    "copy (select 1) to '{outside}/written'",
    "copy (select 1) to '{folder}/linked/written'",
    "copy (select 1) to '{outside}/secret.csv'",
    "copy (select 1 as a, 2 as b) to '{folder}/linked' (partition_by (a), overwrite_or_ignore)",
    "export database '{outside}/written'",
    "export database '{folder}/linked/written'",
    "attach '{outside}/written' as o; create table o.t as select 1 as a",
    "set enable_profiling = 'json'; set profiling_output = '{outside}/written.json'; select 1",
    "call enable_logging('QueryLog', storage = 'file', storage_config = {{'path': '{outside}/written'}}); select 1",
    "set log_query_path = '{outside}/written'; select 1",
]

LOCKED = [
    "install httpfs",
    "install spatial from community",
    "install '{folder}/x.duckdb_extension'",
    "load httpfs",
    "load '{folder}/own.csv'",
    "from 'https://127.0.0.1:9/x.csv'",
    "from read_parquet('s3://bucket/x')",
    "attach 'host=127.0.0.1 port=9' as pg (type postgres)",
    "attach '{folder}/x.db' as lite (type sqlite)",
    "create persistent secret s (type http)",
    "set enable_external_access = true",
    "set lock_configuration = false",
    "reset lock_configuration",
    "set allowed_directories = ['/']",
    "set allowed_configs = ['memory_limit']",
    "set memory_limit = '900GB'",
    "set max_temp_directory_size = '900GB'",
    "set temp_directory = '{outside}'",
    "set secret_directory = '{outside}'",
    "set home_directory = '{outside}'",
    "set file_search_path = '{outside}'",
    "set custom_extension_repository = 'http://127.0.0.1:9'",
    "set autoinstall_known_extensions = true",
    "set allow_unsigned_extensions = true",
    "set python_enable_replacements = true",
    "from CONFIG",
    "call enable_profiling(save_location = '{outside}/written')",
]

DATABASES = [
    "{outside}/other.duckdb",
    "{outside}/written.duckdb",
    "../../../outside/other.duckdb",
    "../421/x.duckdb",
    "linked.duckdb",
    "linked/other.duckdb",
    "logged.duckdb",
    "/proc/self/environ",
    "x\0y",
]

LOGGED = "attach '{folder}/logged.duckdb' as o; create table o.t as select 1 as a; from o.t"


def plain(site: Site, sql: str) -> list[Any]:
    """What the same SQL does in a DuckDB without a guard."""
    with duckdb.connect(str(site.folder / "plain.duckdb")) as connection:
        return [row for text in site.sql(sql).split("; ") for row in connection.execute(text).fetchall()]
