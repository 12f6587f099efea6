"""DuckDB in a thread, interrupted when the call is cancelled."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from weakref import WeakValueDictionary

import duckdb

from noetl_activities.tool import Json

__all__ = ["database_of", "in_thread", "turn_of"]

T = TypeVar("T")
_turns: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()


def database_of(config: dict[str, Json], execution_id: str) -> str:
    """``database``/``db_path`` if given, else a file of the execution under NOETL_HOME."""
    given = config.get("database") or config.get("db_path") or config.get("database_path")
    if given:
        return str(given)
    folder = Path(os.environ.get("NOETL_HOME", ".noetl")) / "duckdb"
    folder.mkdir(parents=True, exist_ok=True)
    return str(folder / f"{execution_id or 'adhoc'}.duckdb")


def turn_of(database: str, *of: str) -> threading.Lock:
    """What those hold in turn who write to a file's ledger, or to what of it else is named."""
    return _turns.setdefault("\n".join((os.path.realpath(database), *of)), threading.Lock())


async def in_thread(database: str, work: Callable[[duckdb.DuckDBPyConnection], T]) -> T:
    """Run ``work`` with a connection of its own. Raises duckdb.Error."""
    connection = await asyncio.to_thread(duckdb.connect, database)
    running = asyncio.ensure_future(asyncio.to_thread(work, connection))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        connection.interrupt()
        await asyncio.wait([running])
        raise
    finally:
        await asyncio.to_thread(connection.close)
