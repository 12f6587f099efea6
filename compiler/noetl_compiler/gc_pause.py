"""Pause Python's cyclic garbage collector while many long-lived objects are created.

Compiling a playbook and copying a large value create hundreds of thousands of objects that live until the end and form
no cycles. The collector would traverse them repeatedly in vain, which took a tenth of the time of compiling and two
thirds of that of copying. Reference counting goes on, so no memory is held longer.
"""

from __future__ import annotations

import gc

__all__ = ["CollectorPause"]


class CollectorPause:
    """A context manager in which the collector does not run. Its previous state is restored afterwards.

    Free temporary objects before it ends, as the collector then traverses those that are left. It is a class because a
    generator would be slower, and it is entered for each list that a template yields.
    """

    __slots__ = ("_was_running",)

    def __enter__(self) -> None:
        self._was_running = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_running:
            gc.enable()
