"""Writes rows to a table.

A row is sent as one JSON value, which ``jsonb_populate_record`` converts to the column types of the table. So Postgres
itself converts all types, including domains and arrays, and the SQL contains only quoted names of existing columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from noetl_activities.errors import ConfigError
from noetl_activities.postgres.connect import Connection
from noetl_activities.postgres.json_texts import is_json_type, json_content
from noetl_activities.sinks.data import Row, quote_identifier, require_keys
from noetl_activities.tool import Json

__all__ = ["Table"]

_COLUMNS = """
select attname::text, format_type(atttypid, atttypmod)
from pg_attribute where attrelid = to_regclass($1) and attnum > 0 and not attisdropped
"""
_INTEGERS = ("smallint", "integer", "bigint")


class Table:
    """An existing table. ``types`` maps columns to their types in the notation of Postgres."""

    def __init__(self, connection: Connection, name: str, identifier: str, types: Mapping[str, str]) -> None:
        self.name = name
        self._connection = connection
        self._identifier = identifier
        self._types = types

    @classmethod
    async def find(cls, connection: Connection, parts: Sequence[str]) -> Table:
        """Return the table of this name. Raises ConfigError if there is none.

        As for unquoted names in SQL, an upper-case name also matches the lower-case one.
        """
        name = ".".join(parts)
        for identifier in dict.fromkeys((_quote_table(parts), _quote_table([part.lower() for part in parts]))):
            types = await _types(connection, identifier)
            if types:
                return cls(connection, name, identifier, types)
        raise ConfigError(
            f"there is no table {name}: create it in an earlier step (create table if not exists {name} ...)"
        )

    async def write(self, rows: Sequence[Row], mode: str, keys: Sequence[str]) -> int:
        """Write rows and return their number. A column that a row lacks gets its default, or keeps its value in an
        upsert.
        """
        require_keys(rows, mode, keys)
        if mode == "replace":
            await self._connection.execute(f"delete from {self._identifier}")  # noqa: S608 - the name was checked
        for columns, group in groupby(map(self._table_row, rows), key=_columns_of):
            sql = self._insert(columns) + self._on_conflict(columns, keys, mode)
            await self._connection.executemany(sql, [(row,) for row in group])
        return len(rows)

    def _table_row(self, row: Row) -> Row:
        if not row:
            raise ConfigError(f"a row for table {self.name} has no columns")
        by_column = {self._column(name): value for name, value in row.items()}
        return {name: _column_value(value, self._types[name]) for name, value in by_column.items()}

    def _column(self, name: str) -> str:
        column = next((candidate for candidate in (name, name.lower()) if candidate in self._types), None)
        if column is None:
            raise ConfigError(f"table {self.name} has no column {name!r}: it has {', '.join(sorted(self._types))}")
        return column

    def _insert(self, columns: Sequence[str]) -> str:
        names = ", ".join(map(quote_identifier, columns))
        source = f"jsonb_populate_record(null::{self._identifier}, $1::jsonb)"
        return f"insert into {self._identifier} ({names}) select {names} from {source}"  # noqa: S608 - quoted names

    def _on_conflict(self, columns: Sequence[str], keys: Sequence[str], mode: str) -> str:
        if mode not in ("upsert", "merge"):
            return ""
        key_columns = [self._column(key) for key in keys]
        target = ", ".join(map(quote_identifier, key_columns))
        changes = ", ".join(
            f"{quote_identifier(name)} = excluded.{quote_identifier(name)}"
            for name in columns
            if name not in key_columns
        )
        return f" on conflict ({target}) do update set {changes}" if changes else f" on conflict ({target}) do nothing"


async def _types(connection: Connection, identifier: str) -> dict[str, str]:
    return {str(record[0]): str(record[1]) for record in await connection.fetch(_COLUMNS, identifier)}


def _columns_of(row: Row) -> tuple[str, ...]:
    return tuple(row)


def _column_value(value: Json, type_: str) -> Json:
    if type_ in _INTEGERS:
        return _to_integer(value)
    return json_content(value) if is_json_type(type_) else value


def _to_integer(value: Json) -> Json:
    """Return 3 for 3.0, as an integer column does not accept 3.0; other values unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _quote_table(parts: Sequence[str]) -> str:
    return ".".join(map(quote_identifier, parts))
