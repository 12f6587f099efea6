"""The postgres sink: exactly once (semantics.md 26).

The key and the rows commit in one transaction. Whoever comes second with the same key, be it a retry after a crash
between commit and report or a rival, waits for the first at the key's row and then finds it taken: nothing is written
again.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

import asyncpg

from noetl_activities.errors import ConfigError, SinkError
from noetl_activities.postgres_connect import Connection, connected, sql_error
from noetl_activities.sinks import Stored
from noetl_activities.sinks.data import ColumnTypes, Row, column_type, keys_of, parts_of, quoted, rows_of
from noetl_activities.sql import split
from noetl_activities.tool import Json, ToolContext

__all__ = ["store_postgres"]

_TYPES = ColumnTypes("boolean", "bigint", "double precision", "jsonb", "text")

_KEYS = """
create schema if not exists noetl;
create table if not exists noetl.sink_key (key text primary key, stored_at timestamptz not null default now());
"""
_NAMED = re.compile(r"(?<![:\w]):([A-Za-z_]\w*)")


async def store_postgres(
    config: dict[str, Json], mode: str, key: str, result: Json, auth: Json, context: ToolContext
) -> Stored:
    """Insert, append, upsert, replace or merge rows of ``table``, or run the sink's own ``statement``."""
    try:
        async with connected(auth, config, context) as connection:
            await _ensure_keys(connection)
            async with connection.transaction():
                if not await _claim(connection, key):
                    return Stored(table=_table_name(config), duplicate=True)
                return await _write(connection, config, mode, result)
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
        raise SinkError(sql_error(error)) from error


def _table_name(config: dict[str, Json]) -> str | None:
    table = config.get("table")
    return None if table is None else str(table)


async def _ensure_keys(connection: Connection) -> None:
    """Two sinks may make the table at once; the loser's error means that it is there."""
    if await connection.fetchval("select to_regclass('noetl.sink_key')") is None:
        try:
            await connection.execute(_KEYS)
        except (asyncpg.UniqueViolationError, asyncpg.DuplicateObjectError, asyncpg.DuplicateTableError):
            return


async def _claim(connection: Connection, key: str) -> bool:
    sql = "insert into noetl.sink_key (key) values ($1) on conflict do nothing returning key"
    return await connection.fetchval(sql, key) is not None


async def _write(connection: Connection, config: dict[str, Json], mode: str, result: Json) -> Stored:
    own = (
        config.get("statement")
        or config.get("commands")
        or config.get("command")
        or config.get("sql")
        or config.get("query")
    )
    rows = rows_of(config, result)
    if own:
        return await _run_own(connection, own, config.get("params"), rows)
    if not rows:
        return Stored(0, _table_name(config))
    table = _Table(parts_of(config.get("table")))
    types = await table.types(connection)
    if not types:
        if config.get("create") is not True:
            raise ConfigError(
                f"there is no table {table.name}: create it in a step before, or set create: true on the sink"
            )
        await table.create(connection, rows[0])
        types = await table.types(connection)
    count = await table.write(connection, rows, mode, keys_of(config, mode), types)
    return Stored(count, table.name)


# ---- tables -------------------------------------------------------------------------------------------------------


class _Table:
    """A table whose name was checked."""

    def __init__(self, parts: Sequence[str]) -> None:
        self.name = ".".join(parts)
        self.quoted = ".".join(f'"{part}"' for part in parts)

    async def types(self, connection: Connection) -> dict[str, str]:
        """Column -> type as Postgres writes it; empty when there is no such table."""
        sql = """
        select attname::text, format_type(atttypid, atttypmod)
        from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
        """
        return {str(one[0]): str(one[1]) for one in await connection.fetch(sql, self.quoted)}

    async def create(self, connection: Connection, row: Row) -> None:
        columns = ", ".join(f"{quoted(name)} {column_type(value, _TYPES)}" for name, value in row.items())
        await connection.execute(f"create table if not exists {self.quoted} ({columns})")

    async def write(
        self, connection: Connection, rows: Sequence[Row], mode: str, keys: Sequence[str], types: Mapping[str, str]
    ) -> int:
        columns = list(dict.fromkeys(name for row in rows for name in row))
        unknown = [name for name in columns if name not in types]
        if unknown:
            have = ", ".join(sorted(types))
            raise ConfigError(f"table {self.name} has no column {unknown[0]!r}: it has {have}")
        if mode == "replace":
            await connection.execute(f"delete from {self.quoted}")  # noqa: S608 - the name was checked
        marks = ", ".join(f"${index}" for index in range(1, len(columns) + 1))
        names = ", ".join(map(quoted, columns))
        sql = f"insert into {self.quoted} ({names}) values ({marks})"  # noqa: S608 - quoted names, bound values
        values = [[_fit(row.get(name), types[name]) for name in columns] for row in rows]
        await connection.executemany(sql + _on_conflict(columns, keys, mode), values)
        return len(rows)


def _on_conflict(columns: Sequence[str], keys: Sequence[str], mode: str) -> str:
    if mode not in ("upsert", "merge"):
        return ""
    changed = [name for name in columns if name not in keys]
    target = ", ".join(map(quoted, keys))
    if not changed:
        return f" on conflict ({target}) do nothing"
    return f" on conflict ({target}) do update set " + ", ".join(f"{quoted(c)} = excluded.{quoted(c)}" for c in changed)


def _fit(value: Json, type_: str) -> Any:
    """A JSON value for a column of a type; what does not fit goes as it is, for Postgres to judge."""
    if value is None or type_ in ("json", "jsonb"):
        return value
    if type_.startswith(("text", "character", "uuid")):
        return value if isinstance(value, str) else json.dumps(value) if isinstance(value, dict | list) else str(value)
    if isinstance(value, str):
        return _parsed(value, type_)
    if type_.startswith("double") or type_ == "real":
        return float(value) if isinstance(value, int) else value
    return value


def _parsed(text: str, type_: str) -> Any:
    try:
        if type_.startswith("timestamp"):
            when = datetime.datetime.fromisoformat(text)
            return when if "with time zone" in type_ else when.replace(tzinfo=None)
        if type_ == "date":
            return datetime.date.fromisoformat(text[:10])
        if type_ in ("integer", "bigint", "smallint"):
            return int(text)
        if type_.startswith(("double", "numeric")) or type_ == "real":
            return float(text)
        if type_ == "boolean":
            return text.lower() in ("true", "t", "1", "yes")
    except ValueError as error:
        raise ConfigError(f"{text!r} is no {type_}") from error
    return text


# ---- the sink's own statement -------------------------------------------------------------------------------------


async def _run_own(connection: Connection, own: Json, params: Json, rows: list[Row]) -> Stored:
    """``$1`` takes a list of params; ``:name`` takes a map of them, or runs once for each row."""
    texts = [str(one) for one in cast("list[Json]", own)] if isinstance(own, list) else [str(own)]
    changed = 0
    for text in (part for whole in texts for part in split(whole, "postgres")):
        sql, names = _numbered(text)
        for values in _bindings(names, params, rows):
            changed += _count(await _execute(connection, sql, values))
    return Stored(changed)


def _numbered(text: str) -> tuple[str, list[str]]:
    names: list[str] = []

    def number(match: re.Match[str]) -> str:
        if match.group(1) not in names:
            names.append(match.group(1))
        return f"${names.index(match.group(1)) + 1}"

    return _NAMED.sub(number, text), names


def _bindings(names: list[str], params: Json, rows: list[Row]) -> list[list[Json]]:
    if not names:
        return [list(cast("list[Json]", params))] if isinstance(params, list) else [[]]
    sources = [cast("Row", params)] if isinstance(params, dict) else rows
    missing = next((name for row in sources for name in names if name not in row), None)
    if missing is not None:
        raise ConfigError(f"the statement names :{missing}, which neither params nor the data has")
    return [[row[name] for name in names] for row in sources]


async def _execute(connection: Connection, sql: str, values: Sequence[Json]) -> str:
    prepared = await connection.prepare(sql)
    types = [_base_type(parameter.name) for parameter in prepared.get_parameters()]
    await prepared.fetch(*(_fit(value, type_) for value, type_ in zip(values, types, strict=True)))
    return prepared.get_statusmsg() or ""


def _base_type(name: str) -> str:
    names = {"int4": "integer", "int8": "bigint", "int2": "smallint", "float8": "double precision", "bool": "boolean"}
    names |= {"timestamptz": "timestamp with time zone", "varchar": "character varying"}
    return names.get(name, name)


def _count(status: str) -> int:
    digits = re.search(r"(\d+)$", status)
    return int(digits.group(1)) if digits else 0
