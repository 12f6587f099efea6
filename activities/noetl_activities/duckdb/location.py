"""Locates the database of a call, and the directories that its SQL may access.

Each execution has a folder for its database, to which paths are relative. The deployment may list directories that all
executions share (NOETL_DUCKDB_DIRECTORIES). Nothing else is accessible. A database in a shared directory is served by
one process for all executions, so its SQL can access only the shared directories.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from noetl_activities.data_folder import NoHomeError, data_folder
from noetl_activities.duckdb.wire import MEMORY
from noetl_activities.errors import ConfigError, RefusedError
from noetl_activities.tool import Json
from noetl_activities.variables import CREDENTIALS_VARIABLE, DUCKDB_DIRECTORIES_VARIABLE, HOME_VARIABLE

__all__ = [
    "DUCKDB_MEMORY_VARIABLE",
    "DatabaseFile",
    "allowed_directories_hint",
    "database_file",
    "has_file",
    "memory_limit",
]

DUCKDB_MEMORY_VARIABLE = "NOETL_DUCKDB_MEMORY"
"""The variable with the memory limit of a DuckDB process, in GiB."""

DEFAULT_MEMORY_GIB = 2.0
_MIN_MEMORY_GIB, _MAX_MEMORY_GIB = 1 / 16, 1 << 20

_COMPANION_SUFFIXES = (".wal", ".tmp", ".wal.checkpoint", ".wal.recovery")
"""Suffixes of the files that DuckDB writes next to a database."""

_FOLDER_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


class DatabaseFile(NamedTuple):
    """The file of a database, and what its SQL may access.

    ``database``: an absolute path without links, or MEMORY. ``folder``: the working folder of the process.
    ``directories``: the directories that its SQL may access.
    """

    database: str
    folder: str
    directories: tuple[str, ...]


def database_file(config: dict[str, Json], execution_id: str) -> DatabaseFile:
    """Return the database file of a call; creates the folder of the execution. Raises ConfigError, RefusedError."""
    folder = _execution_folder(execution_id)
    shared_directories = _shared_directories()
    accessible_directories = (str(folder), *shared_directories)
    name = config.get("database") or config.get("db_path") or config.get("database_path")
    if name == MEMORY:
        return DatabaseFile(MEMORY, str(folder), accessible_directories)
    path = _resolve_path(folder / (str(name) if name else f"{folder.name}.duckdb"))
    if path.is_relative_to(folder):
        return DatabaseFile(str(path), str(folder), accessible_directories)
    if any(path.is_relative_to(directory) for directory in shared_directories):
        return DatabaseFile(str(path), str(path.parent), shared_directories)
    raise RefusedError(
        f"the DuckDB file {str(name)!r} is not allowed: {allowed_directories_hint(accessible_directories)}"
    )


def allowed_directories_hint(directories: tuple[str, ...]) -> str:
    """Return a hint which directories a call may use, and how to allow others."""
    return (
        f"DuckDB may use files only in {', '.join(directories)}; to allow another directory, add its absolute path to "
        f"{DUCKDB_DIRECTORIES_VARIABLE} of the worker (/data:/warehouse)"
    )


def has_file(file: DatabaseFile) -> bool:
    """Whether the database exists."""
    return file.database != MEMORY and Path(file.database).exists()


def memory_limit() -> int:
    """Return the bytes that DuckDB may use in one process. Raises ConfigError."""
    text = os.environ.get(DUCKDB_MEMORY_VARIABLE, str(DEFAULT_MEMORY_GIB))
    try:
        gibibytes = float(text)
    except ValueError:
        gibibytes = 0
    if not _MIN_MEMORY_GIB <= gibibytes <= _MAX_MEMORY_GIB:
        raise ConfigError(
            f"{DUCKDB_MEMORY_VARIABLE} of the worker is {text!r}: write a number of GiB, at least {_MIN_MEMORY_GIB}"
        )
    return int(gibibytes * 1024**3)


def _execution_folder(execution_id: str) -> Path:
    name = execution_id or "adhoc"
    if not _FOLDER_NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a valid folder name")
    folder = _home() / "duckdb" / name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return _resolve_path(folder)


def _home() -> Path:
    """Return NOETL_HOME, else the data folder; never the current folder of the worker."""
    home = os.environ.get(HOME_VARIABLE)
    if home:
        return Path(home).absolute()
    try:
        return data_folder()
    except NoHomeError as error:
        raise ConfigError(str(error)) from None


def _shared_directories() -> tuple[str, ...]:
    directories = [name for name in os.environ.get(DUCKDB_DIRECTORIES_VARIABLE, "").split(os.pathsep) if name]
    for directory in directories:
        if not Path(directory).is_absolute():
            raise ConfigError(f"{DUCKDB_DIRECTORIES_VARIABLE} of the worker names {directory!r}: write absolute paths")
        for secret in _secret_paths():
            if Path(os.path.realpath(secret)).is_relative_to(os.path.realpath(directory)):
                raise ConfigError(
                    f"{DUCKDB_DIRECTORIES_VARIABLE} of the worker names {directory!r}, which contains {secret}: move it"
                )
    return tuple(os.path.realpath(directory) for directory in directories)


def _secret_paths() -> list[Path]:
    """Return paths that SQL must not read: the folder of the stack, with its passwords, and the credentials file."""
    credentials = os.environ.get(CREDENTIALS_VARIABLE)
    return [_home(), *([Path(credentials)] if credentials else [])]


def _resolve_path(path: Path) -> Path:
    """Return the path without links and ``..``. Raises RefusedError if a file that DuckDB writes next to it is a link:
    DuckDB opens these files without a check.
    """
    try:
        real = Path(os.path.realpath(path))
        links = [name for name in _COMPANION_SUFFIXES if real.with_name(real.name + name).is_symlink()]
    except (OSError, ValueError) as error:
        raise ConfigError(f"the DuckDB file {str(path)!r} cannot be used: {error}") from error
    if links:
        raise RefusedError(f"{real.name}{links[0]} beside the DuckDB file is a link")
    return real
