"""What asyncpg raises when Postgres fails, and when only the connection does."""

from __future__ import annotations

import asyncpg

__all__ = ["DATABASE_ERRORS", "LOST_CONNECTION_ERRORS"]

_CLIENT_ERRORS = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""Errors that a lost connection may raise, including asyncpg's internal errors."""

DATABASE_ERRORS = (asyncpg.PostgresError, *_CLIENT_ERRORS)
"""The database cannot be reached, refuses or fails."""

LOST_CONNECTION_ERRORS = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, *_CLIENT_ERRORS)
"""The connection cannot be made or is gone: a fresh one may do."""
