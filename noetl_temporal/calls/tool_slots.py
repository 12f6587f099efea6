"""Limits the concurrent calls of a tool in this process to ToolSpec.max_concurrent, over all queues and frames.

A worker may accept more calls (worker.py) than it may run concurrently. A call that waits for a slot sends heartbeats
and can be cancelled; its timeout starts when it gets the slot. Slots are assigned in the order of requests.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

from noetl_activities.tool_spec import ToolSpec

__all__ = ["tool_slot"]

_LIMITS: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[tuple[str, int], asyncio.Semaphore]] = WeakKeyDictionary()
"""Semaphores by event loop, kind of tool and limit."""


def tool_slot(spec: ToolSpec) -> AbstractAsyncContextManager[Any]:
    """Wait for a slot of this tool and hold it while the block runs."""
    if spec.max_concurrent is None:
        return nullcontext()
    limit = _processors() if spec.max_concurrent == "cores" else spec.max_concurrent
    limits = _LIMITS.setdefault(asyncio.get_running_loop(), {})
    return limits.setdefault((spec.kind, limit), asyncio.Semaphore(limit))


def _processors() -> int:
    """Return the number of processors that this process may use; in a container often fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
