"""A connection to the mirror's database, of its own or from a pool."""

from __future__ import annotations

from typing import TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

__all__ = ["Connection"]

Connection: TypeAlias = "asyncpg.Connection | PoolConnectionProxy"
