"""What asyncpg raises when Postgres fails, and when only the connection does."""

from __future__ import annotations

import asyncpg

__all__ = ["DATABASE_ERRORS", "LOST_CONNECTION_ERRORS"]

_OF_THE_CLIENT = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""A connection that ends while it is used or given back may raise each of these, a failure of asyncpg included."""

DATABASE_ERRORS = (asyncpg.PostgresError, *_OF_THE_CLIENT)
"""The database cannot be reached, refuses or fails."""

LOST_CONNECTION_ERRORS = (asyncpg.PostgresConnectionError, asyncpg.OperatorInterventionError, *_OF_THE_CLIENT)
"""The connection cannot be made or is gone: a fresh one may do."""
