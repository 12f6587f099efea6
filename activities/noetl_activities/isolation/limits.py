"""Limits on the resources of each process of a task. For one process, not for the whole task: that needs a cgroup,
which a worker has no right to make. ``accounts`` says when the limit on processes counts the task's alone.
"""

from __future__ import annotations

import contextlib
import resource
import sys

GIB = 1 << 30

LIMITS = (
    # (limit, value, unit), and why this much
    ("RLIMIT_CORE", 0, "bytes"),  # a core dump is the memory of a call, with what it was given
    ("RLIMIT_FSIZE", 4 * GIB, "bytes"),  # a file; a result of that size has no place in a playbook anyway
    ("RLIMIT_NOFILE", 4096, "descriptors"),  # what servers commonly allow; select() alone needs 1024
)
PROCESSES = 512
"""Processes and threads of a task: numeric libraries start a thread for each processor, of which there may be 128."""

MEMORY = 4 * GIB
"""Bytes of memory that a process may write to, unless the deployment names another number."""

ADDRESSES = 4
"""Times the memory: what may be mapped in all, shared memory and reserved addresses of libraries included."""

_REFUSALS = () if sys.platform == "linux" else (ValueError, AttributeError)
"""What a limit may fail with: macOS does not know all."""


def limit_resources(memory: int, processes: int | None) -> None:
    """For this process and those it starts. ``memory``: bytes of each. ``processes``: of all, None for no limit."""
    rows = [*LIMITS, ("RLIMIT_DATA", memory, "bytes"), ("RLIMIT_AS", ADDRESSES * memory, "bytes")]
    if processes is not None:
        rows.append(("RLIMIT_NPROC", processes, "processes"))
    for name, value, _ in rows:
        with contextlib.suppress(*_REFUSALS):
            _lower(getattr(resource, name), value)


def _lower(limit: int, value: int) -> None:
    _, most = resource.getrlimit(limit)
    if most != resource.RLIM_INFINITY:
        value = min(value, most)
    resource.setrlimit(limit, (value, value))
