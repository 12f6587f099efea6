"""What asyncpg raises when Postgres fails, and when only the connection does."""

from __future__ import annotations

import asyncpg

__all__ = ["DATABASE_ERRORS", "LOST_CONNECTION_ERRORS", "reason_of"]

_CLIENT_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""Errors that a lost connection may raise, including asyncpg's internal errors."""

DATABASE_ERRORS = (asyncpg.PostgresError, *_CLIENT_ERRORS)
"""The database cannot be reached, refuses or fails."""

LOST_CONNECTION_ERRORS = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, *_CLIENT_ERRORS)
"""The connection cannot be made or was lost: a new one may work."""


def reason_of(error: BaseException) -> str:
    """A readable message for the error: when a connection is lost, asyncpg describes its internal state instead."""
    is_closed = isinstance(error, asyncpg.InterfaceError) and "closed" in str(error)
    if is_closed or isinstance(error, asyncpg.InternalClientError):
        return "the connection was lost"
    return str(error) or type(error).__name__
