"""Connections of the postgres tool and sink: from a credential.

A call has a connection for itself, new or as good as new: nothing of one playbook (settings, temporary tables, an
aborted transaction) is seen by another.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from typing import Any

import asyncpg

from noetl_activities.errors import ConfigError, CredentialError
from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.postgres_kept import Connection, closed, kept_connections
from noetl_activities.postgres_values import NUL
from noetl_activities.tool import Credential, Json, ToolContext

__all__ = ["SQL_ERRORS", "Connection", "connected", "connected_to", "login", "sql_error"]

SQL_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What a call of Postgres raises, for ``sql_error``."""

_CONNECT_TIMEOUT = 15.0
_RETRYABLE = ("08", "53")
_SHUTDOWN_STATES = frozenset({"57P01", "57P02", "57P03"})
_RETRYABLE_STATES = frozenset({"40001", "40P01", "55P03", *_SHUTDOWN_STATES})
_FIELDS = {
    "host": ("db_host", "host"),
    "port": ("db_port", "port"),
    "user": ("db_user", "user", "username"),
    "password": ("db_password", "password"),
    "database": ("db_name", "database", "dbname"),
    "ssl": ("sslmode", "ssl"),
}


@asynccontextmanager
async def connected(
    auth: Json,
    config: dict[str, Json],
    context: ToolContext,
    connect_timeout: float | None = None,
) -> AsyncGenerator[Connection]:
    """A connection for the ``auth`` (a credential's name or fields), or for ``connection_string`` or ``db_*`` fields.

    ``connect_timeout`` in seconds. JSON columns are values. Where connections are kept (postgres_kept.py) one that was
    used before may come. Raises CredentialError, asyncpg's errors and OSError.
    """
    async with connected_to(await login(auth, config, context), connect_timeout) as connection:
        yield connection


async def login(auth: Json, config: dict[str, Json], context: ToolContext) -> dict[str, Any]:
    """What a connection is opened with: the same for calls that may share one. Raises CredentialError, ConfigError."""
    given = auth if auth is not None else config.get("credential") or _own_fields(config)
    if not given:
        raise CredentialError("a postgres task needs auth: the name of a credential")
    return _arguments(await context.credential(given))


@asynccontextmanager
async def connected_to(arguments: dict[str, Any], connect_timeout: float | None = None) -> AsyncGenerator[Connection]:
    """A connection for these arguments of ``login``; see ``connected``."""
    kept = kept_connections()
    async with kept.slots(arguments) if kept else nullcontext():
        connection = await kept.take(arguments) if kept else None
        if connection is None:
            connection = await _opened(arguments, connect_timeout)
        try:
            yield connection
        except BaseException:
            await closed(connection)
            raise
        await (kept.give_back(arguments, connection) if kept else closed(connection))


async def _opened(arguments: dict[str, Any], seconds: float | None) -> Connection:
    """Statements are not remembered: what is given back loses them (postgres_kept.py)."""
    connection: Connection = await asyncpg.connect(
        **arguments, timeout=seconds or _CONNECT_TIMEOUT, statement_cache_size=0
    )
    try:
        await _set_codecs(connection)
    except BaseException:
        await closed(connection)
        raise
    return connection


def _own_fields(config: dict[str, Json]) -> dict[str, Json]:
    names = ("connection_string", "dsn", *(alias for aliases in _FIELDS.values() for alias in aliases[:1]))
    return {name: config[name] for name in names if config.get(name)}


def _arguments(credential: Credential) -> dict[str, Any]:
    dsn = credential.get("dsn") or credential.get("connection_string") or credential.get("url")
    if dsn:
        return {"dsn": str(dsn)}
    found = {
        name: next((credential[a] for a in aliases if credential.get(a)), None) for name, aliases in _FIELDS.items()
    }
    if found["host"] is None:
        raise CredentialError("a postgres credential needs db_host (or dsn)")
    try:
        found["port"] = int(found["port"] or 5432)
    except ValueError as error:
        raise ConfigError(f"db_port is {found['port']!r}: expected a number") from error
    return {name: value if name == "port" else str(value) for name, value in found.items() if value is not None}


async def _set_codecs(connection: Connection) -> None:
    """JSON columns are values, not texts."""
    for name in ("json", "jsonb"):
        await connection.set_type_codec(name, encoder=json.dumps, decoder=json.loads, schema="pg_catalog")


def sql_error(error: BaseException) -> Outcome:
    """A driver's error as an outcome; ``pg.code`` is the SQLSTATE."""
    if isinstance(error, asyncpg.PostgresError):
        state = str(error.sqlstate or "")
        facts = {"code": state, "sqlstate": state, "constraint": error.constraint_name, "table": error.table_name}
        kind = "connection" if state.startswith("08") or state in _SHUTDOWN_STATES else "sql"
        retryable = state in _RETRYABLE_STATES or state.startswith(_RETRYABLE)
        message = f"{_words(error)} (SQLSTATE {state})"
        return Outcome("error", error=ErrorInfo(kind, message, state, retryable), pg=facts)
    facts = {"code": None, "sqlstate": None}
    if _lost_the_connection(error):
        info = ErrorInfo("connection", f"lost the connection to Postgres: {error}", retryable=True)
        return Outcome("error", error=info, pg=facts)
    if not isinstance(error, OSError):
        return Outcome("error", error=ErrorInfo("sql", str(error)), pg=facts)
    info = ErrorInfo("connection", f"cannot reach Postgres: {_reason(error)}", retryable=True)
    return Outcome("error", error=info, pg=facts)


def _words(error: asyncpg.PostgresError) -> str:
    """The server's own, but where a text has a NUL: there they are riddles."""
    if isinstance(error, asyncpg.UntranslatableCharacterError) and "\\u0000" in str(error.detail):
        return f"a value {NUL}"
    return str(error.message or error)


def _lost_the_connection(error: BaseException) -> bool:
    """Whether the server went away during a statement, which asyncpg tells in several ways."""
    if isinstance(error, asyncpg.InternalClientError):
        return True
    return isinstance(error, asyncpg.InterfaceError) and "closed" in str(error)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return "connection refused" if isinstance(error, ConnectionRefusedError) else error.strerror or str(error)
