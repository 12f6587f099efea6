"""Converts errors of Postgres and its driver to outcomes."""

from __future__ import annotations

import socket
import ssl

import asyncpg

from noetl_activities.outcome import ErrorInfo, Outcome
from noetl_activities.postgres_protocol import LoginRefusedError
from noetl_activities.postgres_values import NUL
from noetl_activities.sql import line_in
from noetl_activities.tool import Json
from noetl_compiler.language.error_kinds import sql_kind

__all__ = ["SQL_ERRORS", "UnreachableError", "reason_of", "sql_error"]

SQL_ERRORS = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""The exceptions of Postgres calls, for ``sql_error``."""

_BAD_VALUE, _INTERNAL = "22000", "XX000"
"""The SQLSTATEs for errors that the driver found itself."""

_LINE = 100
"""Maximum length of the line of SQL in a message."""


class UnreachableError(OSError):
    """No connection was made to ``place``, HOST:PORT. ``name`` is the credential's, if it has one."""

    def __init__(self, place: str, reason: str, name: str | None = None, kind: str = "connection") -> None:
        credential = f" (credential {name!r})" if name else ""
        super().__init__(f"cannot reach Postgres at {place}{credential}: {reason}")
        self.place, self.reason, self.kind = place, reason, kind

    @classmethod
    def at(cls, place: str, error: OSError) -> UnreachableError:
        """Return the error for a failed connection attempt."""
        kinds: tuple[tuple[type[OSError], str], ...] = ((socket.gaierror, "dns"), (ssl.SSLError, "tls"))
        kind = next((kind for error_type, kind in kinds if isinstance(error, error_type)), "connection")
        return cls(place, reason_of(error), kind=kind)

    def named(self, name: str | None) -> UnreachableError:
        """The same error with the name of the credential."""
        return UnreachableError(self.place, self.reason, name, self.kind)


def sql_error(error: BaseException, config: dict[str, Json] | None = None) -> Outcome:
    """Return a driver's error as an outcome; ``pg.code`` is the SQLSTATE, ``pg.position`` the character of the
    statement, from 1 on, where Postgres knows it, and ``pg.line`` its line in the SQL of the task with that ``config``.
    """
    if isinstance(error, asyncpg.PostgresError):
        return _refused(error, config or {})
    facts: dict[str, Json] = {"code": None, "sqlstate": None, "position": None}
    if isinstance(error, LoginRefusedError):
        return Outcome("error", error=ErrorInfo("refused", str(error)), pg=facts)
    if isinstance(error, UnreachableError):
        return Outcome("error", error=ErrorInfo(error.kind, str(error)), pg=facts)
    if _lost_the_connection(error):
        return Outcome("error", error=ErrorInfo("connection", "lost the connection to Postgres"), pg=facts)
    if isinstance(error, OSError):
        message = f"lost the connection to Postgres: {reason_of(error)}"
        return Outcome("error", error=ErrorInfo("connection", message), pg=facts)
    kind = sql_kind(_BAD_VALUE if isinstance(error, asyncpg.DataError | ValueError) else _INTERNAL)
    return Outcome("error", error=ErrorInfo(kind, str(error)), pg=facts)


def _refused(error: asyncpg.PostgresError, config: dict[str, Json]) -> Outcome:
    """Return the outcome of an error that the server reported."""
    state, position = str(error.sqlstate or ""), _position(error)
    query = str(getattr(error, "query", None) or "")
    facts: dict[str, Json] = {
        "code": state,
        "sqlstate": state,
        "position": position,
        "line": line_in(config, query, position) if query and position is not None else None,
        "constraint": error.constraint_name,
        "table": error.table_name,
    }
    message = _words(error)
    place = _place_in(query, position)
    info = ErrorInfo(sql_kind(state, message), f"{message}{place} (SQLSTATE {state})", state)
    return Outcome("error", error=info, pg=facts)


def _position(error: asyncpg.PostgresError) -> int | None:
    """Return the position as a number; None if the server sent something else."""
    text = str(getattr(error, "position", None) or "")
    return int(text) if text.isdecimal() and len(text) < len(str(2**31)) else None


def _place_in(statement: str, position: int | None) -> str:
    """`` at line 2, column 6 of the statement: from nope``; "" if the position is outside the statement."""
    if position is None or not 1 <= position <= len(statement):
        return ""
    start = statement.rfind("\n", 0, position - 1) + 1
    line, column = statement.count("\n", 0, start) + 1, position - start
    end = statement.find("\n", start)
    quoted = statement[start : end if end >= 0 else len(statement)].strip()
    if len(quoted) > _LINE:
        quoted = f"{statement[position - 1 : position - 1 + _LINE].partition(chr(10))[0]}..."
    return f" at line {line}, column {column} of the statement: {quoted}"


def _words(error: asyncpg.PostgresError) -> str:
    """Return the message of the server, replaced by a clear one for text that contains NUL."""
    if isinstance(error, asyncpg.UntranslatableCharacterError) and "\\u0000" in str(error.detail):
        return f"a value {NUL}"
    return str(error.message or error)


def _lost_the_connection(error: BaseException) -> bool:
    """Whether the connection was lost during a statement, for which asyncpg has several errors: they show its own
    state, not what happened.
    """
    if isinstance(error, asyncpg.InternalClientError):
        return True
    return isinstance(error, asyncpg.InterfaceError) and "closed" in str(error)


def reason_of(error: OSError) -> str:
    """Return why there is no connection, in a few words."""
    if isinstance(error, TimeoutError):
        return "timed out"
    return "connection refused" if isinstance(error, ConnectionRefusedError) else error.strerror or str(error)
