"""The sandbox of a DuckDB process, which it enters before it opens a database and cannot leave.

DuckDB's own restrictions come first (instance.py), with clear error messages. This sandbox closes their gaps, on
Linux: files and TCP by landlock, sockets by a system call filter. Other platforms only have limits.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from contextlib import suppress

from noetl_activities.isolation.limits import GIB

__all__ = ["confine"]

LIMITS = {
    resource.RLIMIT_CORE: 0,  # bytes: a core dump would contain data of playbooks
    resource.RLIMIT_NOFILE: 1024,
    resource.RLIMIT_FSIZE: 64 * GIB,  # bytes of a file: databases are large
}


def confine(directories: Sequence[str], memory: int) -> None:
    """Limit this process to ``directories`` and to DuckDB's ``memory`` in bytes. Called before any thread starts."""
    _limit(memory)
    if sys.platform == "linux":
        _confine_on_linux(directories)


def _limit(memory: int) -> None:
    """Limit the resources of this process. DuckDB limits most of its memory itself. The limit on the address space
    covers the rest: results as Python values, and stacks of threads. It is larger than ``memory``, as DuckDB reserves
    more than it uses. Limits that a platform does not support (macOS: the address space) are skipped.
    """
    for limit, value in {**LIMITS, resource.RLIMIT_AS: 3 * memory + 2 * GIB}.items():
        hard = resource.getrlimit(limit)[1]
        allowed_value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        with suppress(ValueError, OSError):
            resource.setrlimit(limit, (allowed_value, allowed_value))


def _confine_on_linux(directories: Sequence[str]) -> None:
    """Allow this process to read Python and system libraries, and to read and write the directories, but not to connect
    to anything.
    """
    from noetl_activities.isolation import call_filter, files, landlock, system

    system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)
    version = landlock.abi()
    if version:
        landlock.restrict(version, files.allowed_paths(directories, ()), ())
    call_filter.restrict_calls(may_change_attributes=False)
