"""Results that are a mapping or a list, with names for the whole of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from noetl_compiler.graph import Json

__all__ = ["ListView", "ResultView"]

_SELF_NAMES = frozenset({"data", "result", "output"})
_LIST_NAMES = frozenset({*_SELF_NAMES, "results"})
_COUNT_NAMES = frozenset({"count", "total"})


class ResultView(Mapping[str, Any]):
    """A mapping. ``data``, ``result`` and ``output`` are the result itself if it has no such key; its keys shadow the
    names in ``extra``. Keys below the ``data`` of an old envelope, {status, data}, count as keys of the result.
    """

    __slots__ = ("_extra", "_result")

    def __init__(self, result: Mapping[str, Json], extra: Mapping[str, Any] | None = None) -> None:
        self._result = result
        self._extra = extra or {}

    def __getitem__(self, key: Any) -> Any:
        if key in self._result:
            return self._result[key]
        return self._missing(key)

    def _missing(self, key: Any) -> Any:
        if key in self._extra:
            return self._extra[key]
        inner = self._result.get("data") if "status" in self._result else None
        if isinstance(inner, Mapping) and key in inner:
            return cast("Mapping[str, Json]", inner)[key]
        if key in _SELF_NAMES:
            return self
        raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        return iter(self._result)

    def __len__(self) -> int:
        return len(self._result)

    def materialise(self) -> Json:
        """Return the stored result."""
        return dict(self._result)


class ListView(list[Any]):
    """A list. ``data``, ``result`` and ``results`` are the list itself, ``count`` and ``total`` its length."""

    __slots__ = ()

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key in _COUNT_NAMES:
            return len(self)
        if key in _LIST_NAMES:
            return self
        raise KeyError(key)

    def materialise(self) -> Json:
        """Return the stored result."""
        return list(self)
