"""Prepares all msgspec structs before threads decode them: msgspec's first decode of a struct is not thread-safe.

On the first decode of a struct msgspec resolves its fields, and publishes them before they are complete. Another thread
that decodes the same struct at that moment crashes the process (segmentation fault). Workers decode in several threads,
so they prepare all structs before they start.

Classes of the SDK's sandbox are skipped: it imports modules again for each workflow and drops their classes later, and
the garbage collector crashes if a prepared struct outlives its class.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress

import msgspec

__all__ = ["prepare_structs"]

_PACKAGES = ("noetl_temporal", "noetl_compiler", "noetl_activities")


def prepare_structs() -> None:
    """Let msgspec resolve every imported struct of this project."""
    for kind in _subclasses(msgspec.Struct):
        if kind.__module__.partition(".")[0] in _PACKAGES and _is_current(kind):
            with suppress(TypeError):  # some structs of the compiler cannot be decoded, and never are
                msgspec.json.Decoder(kind)


def _is_current(kind: type[msgspec.Struct]) -> bool:
    """Whether this is the class that its module has now, and not that of an earlier import."""
    return getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind


def _subclasses(kind: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
