"""What msgspec has to know of our structs, worked out before any thread needs it.

msgspec works a struct's fields out when it first decodes one, and notes them before they are complete. While it reads
the annotations another thread may run, and decode the same struct from what is there: the process dies of a
segmentation fault. Workers decode in several threads, so they have all structs worked out before they start.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

__all__ = ["work_out_structs"]

OURS = ("noetl_temporal", "noetl_compiler", "noetl_activities")


def work_out_structs() -> None:
    """Let msgspec work out all structs of this project that have been imported and can be decoded."""
    for kind in _derived(msgspec.Struct):
        if kind.__module__.partition(".")[0] in OURS:
            with suppress(TypeError):  # the compiler has some that nobody decodes
                msgspec.json.Decoder(kind)


def _derived(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for one in kind.__subclasses__():
        yield one
        yield from _derived(one)
