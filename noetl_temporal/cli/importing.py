"""Imports without garbage collection.

The collector would scan all imported modules again and again, which takes a tenth of the time of a short command.
Modules live as long as the process, so later collections skip them as well.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["importing"]


@contextmanager
def importing() -> Generator[None]:
    """Disable the garbage collector while the block runs, and freeze the objects that exist at its end."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
