"""The type of a connection to the mirror's database: opened directly, or acquired from a pool."""

from __future__ import annotations

from typing import TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

__all__ = ["Connection"]

Connection: TypeAlias = "asyncpg.Connection | PoolConnectionProxy"
