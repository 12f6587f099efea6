"""The errors that asyncpg raises if Postgres fails, or if only the connection fails."""

from __future__ import annotations

import asyncpg

from noetl_activities.errors import CONNECTION_REFUSED

__all__ = ["DATABASE_ERRORS", "LOST_CONNECTION_ERRORS", "is_lost_connection", "reason_of"]

_CLIENT_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""Errors that a lost connection may raise, including asyncpg's internal errors."""

DATABASE_ERRORS = (asyncpg.PostgresError, *_CLIENT_ERRORS)
"""The database is unavailable, refuses a statement, or fails."""

LOST_CONNECTION_ERRORS = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, *_CLIENT_ERRORS)
"""The connection failed or was lost: a new one may succeed."""


def is_lost_connection(error: BaseException) -> bool:
    """Whether the connection was ended by Postgres or on the way to it."""
    disconnects = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError)
    return isinstance(error, disconnects) or _is_closed(error)


def _is_closed(error: BaseException) -> bool:
    if isinstance(error, ConnectionError):
        return "connection_lost()" in str(error)  # while the connection was made
    return isinstance(error, asyncpg.InterfaceError) and "closed" in str(error)


def reason_of(error: BaseException) -> str:
    """Return a readable message for the error: asyncpg describes its internal state when a connection is lost, and the
    call of the operating system when none is made.
    """
    if _is_closed(error) or isinstance(error, asyncpg.InternalClientError):
        return "the connection was lost"
    if isinstance(error, ConnectionRefusedError):
        return CONNECTION_REFUSED
    return str(error) or type(error).__name__
