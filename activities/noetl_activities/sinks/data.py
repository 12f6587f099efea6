"""The rows that a sink stores: from its ``data``, or from the result if it has none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from noetl_activities.errors import ConfigError
from noetl_activities.tool import Json

__all__ = [
    "ColumnTypes",
    "Row",
    "column_type",
    "key_columns",
    "quote_identifier",
    "require_keys",
    "sink_content",
    "sink_rows",
    "table_parts",
]

Row = dict[str, Json]

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")


def sink_rows(config: dict[str, Json], result: Json) -> list[Row]:
    """Return the rows to store: a row for each element of a list, or one for any other content. A mapping is a row; any
    other value becomes ``{value}``. The ``mapping`` of the sink defines the columns.
    """
    content = sink_content(config, result)
    items = cast("list[Json]", content) if isinstance(content, list) else [content]
    rows = [cast("Row", item) if isinstance(item, dict) else {"value": item} for item in items]
    mapping: Json = config.get("mapping")
    return _map_columns(rows, mapping) if mapping else rows


def _map_columns(rows: list[Row], mapping: Json) -> list[Row]:
    """Return rows with the columns of the mapping. A string in it is the path of a field; any other value is the value
    of the column. Missing fields are null; a field that all rows lack is an error.
    """
    if not isinstance(mapping, dict):
        raise ConfigError(f"the mapping of a sink is {mapping!r:.60}: write COLUMN: FIELD for each column")
    columns = cast("dict[str, Json]", mapping)
    paths = {name: value.split(".") for name, value in columns.items() if isinstance(value, str)}
    for name, path in paths.items():
        if rows and all(_value_at(row, path) is _ABSENT for row in rows):
            fields = ", ".join(sorted(rows[0])) or "none"
            raise ConfigError(f'the column "{name}" is filled from "{".".join(path)}", but the data has {fields}')
    return [{name: _column_value(row, paths.get(name), value) for name, value in columns.items()} for row in rows]


def _column_value(row: Row, path: list[str] | None, value: Json) -> Json:
    if path is None:
        return value
    field_value = _value_at(row, path)
    return None if field_value is _ABSENT else field_value


_ABSENT = object()


def _value_at(row: Json, path: list[str]) -> Json:
    for name in path:
        if not isinstance(row, dict) or name not in row:
            return _ABSENT
        row = cast("dict[str, Json]", row)[name]
    return row


def sink_content(config: dict[str, Json], result: Json) -> Json:
    """Return the ``data`` of the sink, or the result if it has none."""
    data = config.get("data")
    return result if data is None else data


def key_columns(config: dict[str, Json], mode: str, label: str = "a sink") -> list[str]:
    """Return the columns that identify a row, for upsert and merge. ``label`` names the sink in the ConfigError."""
    value: Json = config.get("key") or config.get("keys") or []
    keys = [str(key) for key in cast("list[Json]", value)] if isinstance(value, list) else [str(value)]
    if mode in ("upsert", "merge") and not keys:
        raise ConfigError(f"{label} with mode {mode} needs key: the column that identifies a row")
    return keys


def require_keys(rows: Iterable[Row], mode: str, keys: Sequence[str]) -> None:
    """Check for upsert and merge that each row has the key columns: a missing key would never match a stored row.
    Raises ConfigError.
    """
    if mode not in ("upsert", "merge"):
        return
    for row in rows:
        names = {name.lower() for name in row}
        if missing := [key for key in keys if key.lower() not in names]:
            columns = ", ".join(sorted(row)) or "none"
            hint = "; data that is not a mapping becomes the column value" if set(row) == {"value"} else ""
            raise ConfigError(f'a row lacks the key column "{missing[0]}": its columns are {columns}{hint}')


def table_parts(table: Json) -> list[str]:
    """Return the parts of ``schema.table``. Raises ConfigError for an invalid name."""
    parts = str(table or "").split(".")
    if not table or len(parts) > 2 or not all(_IDENTIFIER.fullmatch(part) for part in parts):
        raise ConfigError(f"invalid table {table!r}: write table or schema.table")
    return parts


class ColumnTypes(NamedTuple):
    """The names of a database for the types of JSON."""

    boolean: str
    integer: str
    number: str
    json: str
    text: str


def column_type(value: Json, types: ColumnTypes) -> str:
    """Return the type of a new column for this value."""
    if isinstance(value, bool):
        return types.boolean
    if isinstance(value, int):
        return types.integer
    if isinstance(value, float):
        return types.number
    return types.json if isinstance(value, dict | list) else types.text


def quote_identifier(name: str) -> str:
    """Return the name quoted as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
