"""The limits of the machine in a simulated run: often so small that a playbook of a few steps reaches them."""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from noetl_temporal.machine import budget, failure_log
from noetl_temporal.machine.loops import chunks
from noetl_temporal.machine.tasks import task_executions

__all__ = ["patched_limits"]

_EXECUTIONS = 500
"""Enough for every task that ends. Jumps without calls would reach the real limit only after a minute."""

_LIMITS: tuple[tuple[Any, str, tuple[int, ...]], ...] = (
    (chunks, "CHUNK_ITEMS", (1, 2, 3, 400)),
    (failure_log, "MAX_DETAILED", (1, 3, 50)),
    (task_executions, "MAX_EXECUTIONS", (_EXECUTIONS,)),
    (budget, "MAX_PENDING", (2, 10, budget.MAX_PENDING, budget.MAX_PENDING)),
    (budget, "MAX_WORK", (2_000, budget.MAX_WORK, budget.MAX_WORK, budget.MAX_WORK)),
    (budget, "COMMAND_BYTES", (4_000, 50_000, budget.COMMAND_BYTES, budget.COMMAND_BYTES)),
)


@contextmanager
def patched_limits(seed: int) -> Generator[None]:
    """Inside the block the machine has the limits that are drawn for this seed."""
    with ExitStack() as stack:
        for owner, name, choices in _LIMITS:
            stack.enter_context(patch.object(owner, name, random.Random(f"{seed}/{name}").choice(choices)))
        yield
