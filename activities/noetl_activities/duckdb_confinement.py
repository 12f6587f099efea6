"""What a DuckDB process does to itself before it opens a database, and nobody can undo.

DuckDB's own guard is the first one (duckdb_instance.py), and tells what it refuses. This one holds where that has a
gap, on Linux: files and TCP by landlock, sockets by a filter of system calls. Elsewhere limits are all.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from contextlib import suppress

__all__ = ["confine"]

GIB = 1024**3

LIMITS = {
    resource.RLIMIT_CORE: 0,  # bytes: it would have the data of playbooks
    resource.RLIMIT_NOFILE: 1024,
    resource.RLIMIT_FSIZE: 64 * GIB,  # bytes of a file: databases are large
}


def confine(directories: Sequence[str], memory: int) -> None:
    """Limit this process to ``directories`` and to DuckDB's ``memory`` in bytes. Called before any thread starts."""
    _limit(memory)
    if sys.platform == "linux":
        _confine_on_linux(directories)


def _limit(memory: int) -> None:
    """DuckDB counts most of its memory itself. The address space bounds the rest, results as Python values and threads
    with their stacks; it is larger, as DuckDB reserves what it does not use. What a platform does not limit (macOS: the
    address space) stays as it is.
    """
    for which, value in {**LIMITS, resource.RLIMIT_AS: 3 * memory + 2 * GIB}.items():
        hard = resource.getrlimit(which)[1]
        allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(which, (allowed, allowed))


def _confine_on_linux(directories: Sequence[str]) -> None:
    """Read Python and the system's libraries, read and write the directories, connect to nothing."""
    from noetl_activities.isolation import call_filter, files, landlock, system

    system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
    version = landlock.abi()
    if version:
        landlock.restrict(version, files.allowed_paths(directories, ()), ())
    call_filter.restrict_calls(attributes=False)
