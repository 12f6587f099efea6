"""Import without the garbage collector.

It would scan all imported modules again and again, a tenth of what a short command takes. Modules are
no garbage: they stay as long as the process, so they are left out of later collections as well.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["importing"]


@contextmanager
def importing() -> Generator[None]:
    """Hold the collector back while the block runs."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
