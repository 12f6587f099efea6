"""Values of a scope that are worked out, or loaded, only when they are read.

Templates see no Deferred: whoever looks a name up in one of our mappings gets the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

__all__ = ["Deferred", "Names", "taken"]


class Deferred:
    """``take`` gives the value, or raises."""

    __slots__ = ("take",)

    def __init__(self, take: Callable[[], Any]) -> None:
        self.take = take


def taken(value: Any) -> Any:
    """The value itself, deferred or not."""
    return value.take() if type(value) is Deferred else value


class Names(Mapping[str, Any]):
    """A mapping of values of which some are deferred: each is taken when it is read."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return taken(self._values[key])

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    @property
    def deferred(self) -> Mapping[str, Any]:
        """The values as they are, none of them taken."""
        return self._values

    def materialise(self) -> dict[str, Any]:
        """All values, taken."""
        return dict(self)
