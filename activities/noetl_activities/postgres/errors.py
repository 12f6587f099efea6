"""Converts errors of Postgres and its driver to outcomes."""

from __future__ import annotations

import socket
import ssl

import asyncpg

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.postgres.protocol import LoginRefusedError
from noetl_activities.postgres.values import CONTAINS_NUL
from noetl_activities.sql import line_in_task
from noetl_activities.tool import Json
from noetl_compiler.language.error_kinds import sql_kind

__all__ = ["SQL_ERRORS", "UnreachableError", "connection_failure_reason", "sql_error"]

SQL_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""The exceptions of Postgres calls, for ``sql_error``."""

_INVALID_VALUE, _INTERNAL_ERROR = "22000", "XX000"
"""The SQLSTATEs for errors that the driver found itself."""

_MAX_LINE_CHARS = 100
"""Maximum length of the line of SQL in a message."""


class UnreachableError(OSError):
    """No connection could be made to ``servers``, HOST:PORT. ``name``: that of the credential, if it has one."""

    def __init__(self, servers: str, reason: str, name: str | None = None, kind: str = "connection") -> None:
        credential = f" (credential {name!r})" if name else ""
        super().__init__(f"cannot reach Postgres at {servers}{credential}: {reason}")
        self.servers, self.reason, self.kind = servers, reason, kind

    @classmethod
    def from_error(cls, servers: str, error: OSError) -> UnreachableError:
        """Return the error for a failed connection attempt."""
        kinds: tuple[tuple[type[OSError], str], ...] = ((socket.gaierror, "dns"), (ssl.SSLError, "tls"))
        kind = next((kind for error_type, kind in kinds if isinstance(error, error_type)), "connection")
        return cls(servers, connection_failure_reason(error), kind=kind)

    def with_credential(self, name: str | None) -> UnreachableError:
        """Return the same error with the name of the credential."""
        return UnreachableError(self.servers, self.reason, name, self.kind)


def sql_error(error: BaseException, config: dict[str, Json] | None = None) -> Outcome:
    """Return the outcome for an error of the driver.

    ``pg.code`` is the SQLSTATE. ``pg.position`` is the position of the error in the statement, from 1, if Postgres
    reports it, and ``pg.line`` its line in the SQL of the task with this ``config``.
    """
    if isinstance(error, asyncpg.PostgresError):
        return _server_error_outcome(error, config or {})
    pg: dict[str, Json] = {"code": None, "sqlstate": None, "position": None}
    if isinstance(error, LoginRefusedError):
        return Outcome("error", error=ErrorInfo("refused", str(error)), pg=pg)
    if isinstance(error, UnreachableError):
        return Outcome("error", error=ErrorInfo(error.kind, str(error)), pg=pg)
    if _is_connection_lost(error):
        return Outcome("error", error=ErrorInfo("connection", "lost the connection to Postgres"), pg=pg)
    if isinstance(error, OSError):
        message = f"lost the connection to Postgres: {connection_failure_reason(error)}"
        return Outcome("error", error=ErrorInfo("connection", message), pg=pg)
    kind = sql_kind(_INVALID_VALUE if isinstance(error, asyncpg.DataError | ValueError) else _INTERNAL_ERROR)
    return Outcome("error", error=ErrorInfo(kind, str(error)), pg=pg)


def _server_error_outcome(error: asyncpg.PostgresError, config: dict[str, Json]) -> Outcome:
    """Return the outcome of an error that the server reported."""
    sqlstate, position = str(error.sqlstate or ""), _position(error)
    query = str(getattr(error, "query", None) or "")
    pg: dict[str, Json] = {
        "code": sqlstate,
        "sqlstate": sqlstate,
        "position": position,
        "line": line_in_task(config, query, position) if query and position is not None else None,
        "constraint": error.constraint_name,
        "table": error.table_name,
    }
    message = _server_message(error)
    position_text = _position_text(query, position)
    info = ErrorInfo(sql_kind(sqlstate, message), f"{message}{position_text} (SQLSTATE {sqlstate})", sqlstate)
    return Outcome("error", error=info, pg=pg)


def _position(error: asyncpg.PostgresError) -> int | None:
    """Return the position as a number; None if the server sent something else."""
    text = str(getattr(error, "position", None) or "")
    return int(text) if text.isdecimal() and len(text) < len(str(2**31)) else None


def _position_text(statement: str, position: int | None) -> str:
    """Return `` at line 2, column 6 of the statement: from nope``; "" if the position is outside of the statement."""
    if position is None or not 1 <= position <= len(statement):
        return ""
    start = statement.rfind("\n", 0, position - 1) + 1
    line, column = statement.count("\n", 0, start) + 1, position - start
    end = statement.find("\n", start)
    excerpt = statement[start : end if end >= 0 else len(statement)].strip()
    if len(excerpt) > _MAX_LINE_CHARS:
        excerpt = f"{statement[position - 1 : position - 1 + _MAX_LINE_CHARS].partition(chr(10))[0]}..."
    return f" at line {line}, column {column} of the statement: {excerpt}"


def _server_message(error: asyncpg.PostgresError) -> str:
    """Return the message of the server, but a clearer one for a value that contains NUL."""
    if isinstance(error, asyncpg.UntranslatableCharacterError) and "\\u0000" in str(error.detail):
        return f"a value {CONTAINS_NUL}"
    return str(error.message or error)


def _is_connection_lost(error: BaseException) -> bool:
    """Whether the connection was lost during a statement. asyncpg raises different errors then, depending on its
    internal state, and describes that state in them.
    """
    if isinstance(error, asyncpg.InternalClientError):
        return True
    if isinstance(error, ConnectionError):
        return "connection_lost()" in str(error)  # while the connection was made
    return isinstance(error, asyncpg.InterfaceError) and "closed" in str(error)


def connection_failure_reason(error: OSError) -> str:
    """Return why there is no connection, such as ``timed out``."""
    if isinstance(error, TimeoutError):
        return "timed out"
    return "connection refused" if isinstance(error, ConnectionRefusedError) else error.strerror or str(error)
