"""SQL of playbooks that tries to access files, other databases, extensions and settings through DuckDB."""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dev.attack.attack import Attack, AttackClass
from dev.attack.duckdb_site import DATABASES, HAS_LANDLOCK, LOCKED, LOGGED, READS, SECRET, WRITES, Site, plain
from dev.attack.tool_calls import call
from noetl_activities.duckdb.tool import TOOL
from noetl_activities.errors import ConfigError, RefusedError
from noetl_activities.variables import DUCKDB_DIRECTORIES_VARIABLE, HOME_VARIABLE

__all__ = ["CLASS"]

REFUSALS = ("PermissionException", "InvalidInputException", "IOException", "BinderException", "CatalogException")
"""The last two where what would reach out, an extension or a replacement of a table's name, is not there at all."""

READERS = (
    *("from '{}'", "from read_csv('{}')", "from read_csv('{}', filename = true)", "from read_csv_auto('{}')"),
    *("select content from read_text('{}')", "select content::text from read_blob('{}')", "from sniff_csv('{}')"),
    *("from read_csv(['{{folder}}/own.csv', '{}'], union_by_name = true)", "from glob('{}')"),
    *("from read_json('{}', format = 'auto', ignore_errors = true)", "from read_text(['{}'])"),
)
"""``{}`` is a file."""

COPIERS = (
    *("create table t (name varchar, value varchar); copy t from '{}'; from t", "import database '{}'"),
    *("attach '{}' as o (read_only); from o.secret", "attach if not exists '{}' as o; from o.secret"),
)
FILES = (
    *("{outside}/secret.csv", "file://{outside}/secret.csv", "file:{outside}/secret.csv", "//{outside}/secret.csv"),
    *("{outside}/./secret.csv", "{outside}/../outside/secret.csv", "{folder}/../../../outside/secret.csv"),
    *("{folder}/link.csv", "{folder}/relative.csv", "{folder}/linked/secret.csv", "{folder}/linked/*.csv"),
    *("../421/secret.csv", "../../../outside/secret.csv", "linked/secret.csv", "link.csv", "{beside}/secret.csv"),
    *("{outside}/sec*.csv", "{outside}/[s]ecret.csv", "{outside}/**", "{named}/../outside/secret.csv"),
    *("/proc/self/root{outside}/secret.csv", "/proc/self/cwd/linked/secret.csv", "/proc/self/environ"),
    *("{outside}/other.duckdb", "{folder}/linked.duckdb", "linked/other.duckdb", "/proc/self/fd/0"),
)
WRITERS = (
    *("copy (select 1) to '{}'", "copy (select 1) to '{}' (format parquet)", "export database '{}'"),
    *("copy (select 1) to '{}' (use_tmp_file false)", "copy (select 1) to '{}' (format json)"),
    *("attach '{}' as o; create table o.t as select 1 as a", "copy (select 1 as a, 2 as b) to '{}' (partition_by (a))"),
)
TARGETS = (
    *("{outside}/written", "file://{outside}/written", "{folder}/linked/written", "linked/written"),
    *("../../../outside/written", "{outside}/../outside/written", "{folder}/logged.duckdb.wal", "{outside}/secret.csv"),
    *("/proc/self/root{outside}/written", "{named}/../outside/written", "/proc/self/cwd/linked/written"),
)
WRAPPERS = (
    *("{}", "{}", "create view v as {}; from v", "create table w as {}; from w", "with c as ({}) from c"),
    *("prepare p as {}; execute p", "create macro m() as table {}; from m()", "select (select c from ({}) c limit 1)"),
)


class _Guard:
    """What runs the SQL."""

    is_on = True


def _read(rng: random.Random) -> Attack:
    file = rng.choice(FILES)
    if rng.random() < 0.3:
        return _sql_attack(rng.choice(COPIERS).format(file))
    return _sql_attack(rng.choice(WRAPPERS).replace("{}", rng.choice(READERS).replace("{}", file)))


def _write(rng: random.Random) -> Attack:
    return _sql_attack(rng.choice(WRITERS).replace("{}", rng.choice(TARGETS)))


def _known_sql(rng: random.Random) -> Attack:
    return _sql_attack(rng.choice((*READS, *WRITES, *(LOGGED for _ in range(HAS_LANDLOCK)))))


def _locked_setting(rng: random.Random) -> Attack:
    """A setting or an extension, in other letters too: it must be refused whether it reaches anything or not."""
    text = rng.choice(LOCKED)
    if text.startswith("set ") and rng.random() < 0.5:
        name = text.removeprefix("set ")
        text = rng.choice((f"SET GLOBAL {name}", f"set session {name}", f"pragma {name}", f"  SeT/**/{name}"))
    return Attack(text, partial(_is_accepted, text))


def _database(rng: random.Random) -> Attack:
    name = rng.choice((*DATABASES, *(name for name in (*FILES, *TARGETS) if not name.startswith(("file:", "/proc")))))
    return Attack(f"database {name!r}", partial(_gets_through, "create table t as select 1 as a; from t", name))


def _sql_attack(sql: str) -> Attack:
    return Attack(sql, partial(_gets_through, sql, None))


def _gets_through(sql: str, database: str | None) -> bool:
    """Whether a file outside the allowed folders was read or changed."""
    with _files_for_attack() as site:
        rows = _rows_or_empty(site, sql, database)
        return SECRET in rows or "secret.csv" in rows or "PATH=" in rows or site.content() != site.before


def _is_accepted(sql: str) -> bool:
    with _files_for_attack() as site:
        return bool(_rows_or_empty(site, sql, None)) or site.content() != site.before


def _rows_or_empty(site: Site, sql: str, database: str | None) -> str:
    """Return the rows as text, or "" if the call was refused."""
    if not _Guard.is_on:
        return f"done: {plain(site, sql)}"
    config: dict[str, Any] = {"command": site.sql(sql)} | ({"database": site.sql(database)} if database else {})
    try:
        outcome = asyncio.run(call(TOOL, config))
    except (ConfigError, RefusedError):
        return ""
    if outcome.error is None:
        return f"done: {outcome.result['rows']}"
    if outcome.error.code not in REFUSALS and "Permission denied" not in outcome.error.message:
        raise ValueError(f"this is no refusal: {outcome.error.code}: {outcome.error.message}")
    return SECRET if SECRET in outcome.error.message else ""


@contextmanager
def _files_for_attack() -> Generator[Site]:
    """Create the files for one attack."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as root:
        site = Site(Path(root))
        environment = {HOME_VARIABLE: f"{root}/home", DUCKDB_DIRECTORIES_VARIABLE: str(site.named), "CANARY": SECRET}
        with patch.dict(os.environ, environment):
            yield site


def _attacks(rng: random.Random, count: int) -> Iterator[Attack]:
    for index in range(count):
        yield (_read, _write, _known_sql, _locked_setting, _read, _database)[index % 6](rng)


def _disable_guard() -> AbstractContextManager[object]:
    """Use plain DuckDB in this process."""
    return patch.object(_Guard, "is_on", False)


CLASS = AttackClass(
    "duckdb",
    _attacks,
    (
        _sql_attack("from read_csv('{folder}/linked/secret.csv')"),
        _sql_attack("copy (select 1) to '{outside}/written'"),
        _sql_attack("attach '{folder}/linked.duckdb' as o (read_only); from o.secret"),
        _sql_attack(LOGGED),
        Attack("a setting", partial(_is_accepted, "set temp_directory = '{outside}'")),
    ),
    _disable_guard,
)
