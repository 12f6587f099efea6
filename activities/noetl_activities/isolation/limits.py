"""Resource limits of each process of a task. A limit for the whole task would need a cgroup, which a worker may not be
allowed to create. The limit on processes is set only if it counts the processes of the task alone (accounts.py).
"""

from __future__ import annotations

import contextlib
import resource
import sys

GIB = 1 << 30

LIMITS = (
    # (limit, value, unit)  # reason for the value
    ("RLIMIT_CORE", 0, "bytes"),  # a core dump contains the memory of a call, with its input
    ("RLIMIT_FSIZE", 4 * GIB, "bytes"),  # of a file; results must be far smaller anyway
    ("RLIMIT_NOFILE", 4096, "descriptors"),  # the usual limit of servers
)
MAX_PROCESSES = 512
"""Maximum number of processes and threads of a task. Numeric libraries start a thread for each of up to 128 processors.
"""

DEFAULT_MEMORY = 4 * GIB
"""The default limit on the memory that a process can write to, in bytes."""

ADDRESS_SPACE_FACTOR = 4
"""The limit on the address space, as a multiple of the memory; it includes shared memory and reserved addresses."""

_UNSUPPORTED = () if sys.platform == "linux" else (ValueError, AttributeError)
"""The errors for limits that a platform lacks: macOS does not have all."""


def limit_resources(memory: int, processes: int | None) -> None:
    """Limit this process and its children, each to ``memory`` bytes, and their number to ``processes``, if not None."""
    rows = [*LIMITS, ("RLIMIT_DATA", memory, "bytes"), ("RLIMIT_AS", ADDRESS_SPACE_FACTOR * memory, "bytes")]
    if processes is not None:
        rows.append(("RLIMIT_NPROC", processes, "processes"))
    for name, value, _ in rows:
        with contextlib.suppress(*_UNSUPPORTED):
            _lower(getattr(resource, name), value)


def _lower(limit: int, value: int) -> None:
    _, hard_limit = resource.getrlimit(limit)
    if hard_limit != resource.RLIM_INFINITY:
        value = min(value, hard_limit)
    resource.setrlimit(limit, (value, value))
