"""Resource limits of each process of a task. A limit for the whole task would need a cgroup, which a worker may not
create. ``accounts`` says when the limit on processes counts only those of the task.
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
"""Maximum processes and threads of a task: numeric libraries start a thread per processor, of which there may be 128.
"""

MEMORY = 4 * GIB
"""Bytes of memory that a process may write to, unless the deployment sets another limit."""

ADDRESSES = 4
"""The limit of the address space, as a multiple of the memory; it includes shared memory and reserved addresses."""

_REFUSALS = () if sys.platform == "linux" else (ValueError, AttributeError)
"""The errors of unsupported limits: macOS does not have all."""


def limit_resources(memory: int, processes: int | None) -> None:
    """Limit this process and its children. ``memory``: bytes of each. ``processes``: in total, None for no limit."""
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
