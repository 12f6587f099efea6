"""Count the work of renderings, which is the same in every process.

Temporal fails a workflow task that computes for 2 s without yielding. Time differs between replays, but work does not:
it is the sum of the charges of all renderings, whether templates were cached or had to be compiled. A unit is a step of
the budget, about the time of one addition: 20 to 40 ns in long renderings and up to 70 ns in short ones, so 2,000,000
take 0.04 to 0.14 s, the most that one rendering may take.

The count is local to a thread or task. Only differences within synchronous code are meaningful:
``before = work_done(); ...; spent = work_done() - before``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from noetl_compiler.templating.budget import RenderBudget

__all__ = ["add_work_of", "work_done"]

_done: ContextVar[int] = ContextVar("work_done", default=0)


work_done: Callable[[], int] = _done.get
"""Return the units of work done so far in this thread or task, by successful and failed renderings."""


def add_work_of(budget: RenderBudget) -> None:
    """Add the work of a rendering that ended."""
    _done.set(_done.get() + budget.work())
