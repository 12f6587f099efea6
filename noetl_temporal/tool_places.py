"""How many calls of a tool run at once in this process: what ToolSpec.at_once says, over all queues and frames.

A worker takes calls as long as it has slots (worker.py), more of them than it may run. One that waits for its place
sends heartbeats and can be cancelled; its time begins when it has one. The first to come is the first to go.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

from noetl_activities.tool import ToolSpec

__all__ = ["place_for"]

_LIMITS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], asyncio.Semaphore]] = WeakKeyDictionary()
"""By the event loop, to which a semaphore belongs, the kind of tool and its limit."""


def place_for(spec: ToolSpec) -> AbstractAsyncContextManager[Any]:
    """Wait for a place of this tool and hold it while the block runs."""
    if spec.at_once is None:
        return nullcontext()
    limit = _processors() if spec.at_once == "cores" else spec.at_once
    limits = _LIMITS.setdefault(asyncio.get_running_loop(), {})
    return limits.setdefault((spec.kind, limit), asyncio.Semaphore(limit))


def _processors() -> int:
    """Those that this process may use, which in a container are often fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
