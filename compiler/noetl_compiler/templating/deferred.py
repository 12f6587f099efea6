"""A value in a scope that is worked out, or fetched, only when a template uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Deferred", "taken"]


class Deferred:
    """``take`` gives the value. It may raise what is no Exception, which ends the rendering and reaches its caller."""

    __slots__ = ("take",)

    def __init__(self, take: Callable[[], Any]) -> None:
        self.take = take

    def materialise(self) -> Any:
        """The value, passed on whole."""
        return self.take()


def taken(value: Any) -> Any:
    """The value itself, whether deferred or not."""
    return value.take() if type(value) is Deferred else value
