"""The work that renderings did, as a number that is the same in every process.

A host may compute only so long at once: Temporal fails a workflow task that computes for 2 s. Time differs from replay
to replay, work does not: it is what the meters of the renderings charged, whether a template was known before or had to
be compiled first. A unit takes about 70 ns on a busy machine of two cores, 140 ns where it is priced worst: 2,000,000
are 0.14 to 0.3 s. One rendering can do 8,000,000 at most.

The count belongs to the thread or task that renders. Only differences mean something, between two moments of one
synchronous piece of work: ``before = work_done(); ...; spent = work_done() - before``.
"""

from __future__ import annotations

from contextvars import ContextVar

from noetl_compiler.templating.budget import RenderBudget

__all__ = ["add_work_of", "work_done"]

_done: ContextVar[int] = ContextVar("work_done", default=0)


def work_done() -> int:
    """The units of work done here so far, by renderings that ended and by those that failed."""
    return _done.get()


def add_work_of(meter: RenderBudget) -> None:
    """A rendering ended."""
    _done.set(_done.get() + meter.work())
