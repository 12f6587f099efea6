"""Values of a scope that are computed, or loaded, only when they are read.

Templates see no Deferred: a lookup in a ``DeferredNames`` mapping returns the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["Deferred", "DeferredNames", "read_value"]


class Deferred:
    """A value that is computed or loaded when it is read, by ``compute``, which may raise."""

    __slots__ = ("compute",)

    def __init__(self, compute: Callable[[], Any]) -> None:
        self.compute = compute


def read_value(value: Any) -> Any:
    """Return the value; a deferred one is computed."""
    return value.compute() if type(value) is Deferred else value


class DeferredNames(Mapping[str, Any]):
    """A mapping of values, some of them Deferred: each of these is computed when it is read."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return read_value(self._values[key])

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def uncomputed(self) -> Mapping[str, Any]:
        """The mapping with the Deferred values themselves."""
        return self._values

    def materialise(self) -> dict[str, Any]:
        """Return all values, with the deferred ones computed."""
        return dict(self)
