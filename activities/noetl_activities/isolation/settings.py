"""Settings for the tasks of playbooks, from the worker's environment.

- ``NOETL_TASK_DIRECTORIES``: directories that tasks may read and write in addition to their own folder, separated as in
  PATH. By default none.
- ``NOETL_TASK_PORTS``: TCP ports that tasks may connect to, separated by commas. By default those of DNS, HTTP and
  HTTPS, and their common alternatives; never the ports of the embedded stack (NOETL_STACK_PORTS).
- ``NOETL_TASK_MEMORY``: GiB of memory for each process of a task. By default 4.

Files and folders that other NOETL_* variables of the worker name are hidden from tasks, even in these directories.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from noetl_activities.errors import ConfigError
from noetl_activities.isolation.limits import DEFAULT_MEMORY, GIB, MAX_PROCESSES
from noetl_activities.variables import DUCKDB_DIRECTORIES_VARIABLE, STACK_PORTS_VARIABLE

__all__ = ["TASK_DIRECTORIES_VARIABLE", "TASK_MEMORY_VARIABLE", "TASK_PORTS_VARIABLE", "Settings", "read_settings"]

TASK_DIRECTORIES_VARIABLE = "NOETL_TASK_DIRECTORIES"
TASK_PORTS_VARIABLE = "NOETL_TASK_PORTS"
TASK_MEMORY_VARIABLE = "NOETL_TASK_MEMORY"

_ACCESSIBLE_PATHS_VARIABLES = (TASK_DIRECTORIES_VARIABLE, DUCKDB_DIRECTORIES_VARIABLE)
"""Variables with paths that playbooks may access. Paths in other NOETL_* variables are hidden from tasks."""

DEFAULT_PORTS = frozenset({53, 80, 443, 8080, 8443})


class Settings(TypedDict):
    """The settings for the supervisor of a task. Paths are real paths.

    ``temporary_folder`` contains the folders of tasks. ``memory_bytes`` is the limit for each process of a task,
    ``max_processes`` that for their number.
    """

    temporary_folder: str
    writable_directories: list[str]
    hidden_paths: list[str]
    ports: list[int]
    memory_bytes: int
    max_processes: int


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Read the settings. Raises ConfigError for an invalid variable."""
    directories = environment.get(TASK_DIRECTORIES_VARIABLE, "").split(os.pathsep)
    ports_text = environment.get(TASK_PORTS_VARIABLE)
    ports = DEFAULT_PORTS if ports_text is None else _port_numbers(TASK_PORTS_VARIABLE, ports_text)
    return {
        "temporary_folder": str(Path(tempfile.gettempdir()).resolve()),
        "writable_directories": [str(Path(directory).resolve()) for directory in directories if directory],
        "hidden_paths": _hidden_paths(environment),
        "ports": sorted(ports - _port_numbers(STACK_PORTS_VARIABLE, environment.get(STACK_PORTS_VARIABLE, ""))),
        "memory_bytes": _memory_limit(environment),
        "max_processes": MAX_PROCESSES,
    }


def _hidden_paths(environment: Mapping[str, str]) -> list[str]:
    values = [
        value
        for name, value in environment.items()
        if name.startswith("NOETL_") and name not in _ACCESSIBLE_PATHS_VARIABLES
    ]
    return sorted({str(Path(value).resolve()) for value in values if _is_path(value)})


def _is_path(value: str) -> bool:
    """Whether the value is an existing path. Most values are not paths, and some cannot be."""
    try:
        return bool(value) and Path(value).exists()
    except (OSError, ValueError):
        return False


def _port_numbers(variable: str, text: str) -> frozenset[int]:
    numbers = [number_text.strip() for number_text in text.split(",") if number_text.strip()]
    if not all(text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 65536 for text in numbers):
        raise ConfigError(f"{variable} must be a list of port numbers, separated by commas")
    return frozenset(map(int, numbers))


def _memory_limit(environment: Mapping[str, str]) -> int:
    try:
        memory = (
            int(float(environment[TASK_MEMORY_VARIABLE]) * GIB)
            if TASK_MEMORY_VARIABLE in environment
            else DEFAULT_MEMORY
        )
    except (ValueError, OverflowError):
        memory = 0
    if memory <= 0:
        raise ConfigError(f"{TASK_MEMORY_VARIABLE} must be a number of GiB")
    return memory
