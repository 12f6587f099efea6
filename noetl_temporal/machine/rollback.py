"""Rolls back the state of a machine if a change needs a value that is not loaded.

A checkpoint is a copy of the state. JSON values are never changed in place, so the copy shares them; everything that
the machine mutates is copied. The types of the fields determine which are copied.

A change affects one or a few of possibly hundreds of runs, and runs are the largest part of a state. So a run is copied
only when it is first accessed after a checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, Generic, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

from noetl_temporal.machine.state import LoopState

__all__ = ["Checkpoint", "Runs"]

S = TypeVar("S", bound=msgspec.Struct)
R = TypeVar("R", bound=msgspec.Struct)
_Copier = Callable[[Any], Any]

_RUNS = "runs"
"""The field of a state that has its runs."""


_item: Callable[[Mapping[str, Any], str], Any] = vars(dict)["__getitem__"]
"""``dict.__getitem__``, called without ``super()``, which takes as long as the lookup: every fact reads a run."""

_RECURSIVE = (LoopState,)
"""Recursive types: the state of a loop contains those of the loops inside its iterations."""


class Runs(dict[str, R]):
    """The runs of a machine by id.

    While a checkpoint is open, ``[]``, ``get_mutable`` and ``all_mutable`` save a copy of a run before returning it.
    ``values()``, ``items()`` and ``get()`` save none: use them only to read.
    """

    def __init__(self, runs: Mapping[str, R]) -> None:
        super().__init__(runs)
        self.originals: dict[str, R] | None = None

    def __getitem__(self, id_: str) -> R:
        run: R = _item(self, id_)
        if self.originals is not None and id_ not in self.originals:
            self.originals[id_] = cast("R", _struct_copier(type(run))(run))
        return run

    def get_mutable(self, id_: str) -> R | None:
        """Return the run; None if there is none with this id."""
        return None if super().get(id_) is None else self[id_]

    def all_mutable(self) -> list[R]:
        """Return all runs, in the order in which they began."""
        return [self[id_] for id_ in self]


class Checkpoint(Generic[S, R]):
    """A copy of a state. Must be closed. Only one checkpoint of a state may be open."""

    def __init__(self, state: S, runs: Runs[R]) -> None:
        self._state = cast("S", _struct_copier(type(state), without=_RUNS)(state))
        self._before = dict(runs)
        self._runs = runs
        runs.originals = {}

    def state(self) -> S:
        """Restore and return the saved state. It replaces the changed one and shares its runs."""
        originals = self._runs.originals or {}
        setattr(self._state, _RUNS, {id_: originals.get(id_, run) for id_, run in self._before.items()})
        return self._state

    def close(self) -> None:
        """Stop saving copies of runs."""
        self._runs.originals = None


@lru_cache
def _struct_copier(kind: type[msgspec.Struct], *, without: str = "") -> _Copier:
    hints = get_type_hints(kind)
    names = [name for name in kind.__struct_fields__ if name != without]
    copiers = {name: copier for name in names if (copier := _copier(hints[name])) is not None}

    if not copiers:
        return copy

    def copy_struct(value: msgspec.Struct) -> msgspec.Struct:
        new = copy(value)
        for name, copier in copiers.items():
            field = getattr(value, name)
            if field is not None:
                setattr(new, name, copier(field))
        return new

    return copy_struct


def _copier(hint: Any) -> _Copier | None:
    """Return how to copy a value of this type; None if it is immutable."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _of_union(arguments)
    if origin is list:
        return _of_list(_copier(arguments[0]))
    if origin is dict:
        return _of_dict(_copier(arguments[1]))
    if hint in _RECURSIVE:
        return _copy_recursively
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and not hint.__struct_config__.frozen:
        return _struct_copier(hint)
    return None


def _copy_recursively(value: msgspec.Struct) -> msgspec.Struct:
    """Return a copy of a value of a recursive type."""
    return cast("msgspec.Struct", _struct_copier(type(value))(value))


def _of_union(arguments: tuple[Any, ...]) -> _Copier | None:
    """Return a copier for an optional type."""
    return next((copier for kind in arguments if kind is not NoneType and (copier := _copier(kind)) is not None), None)


def _of_list(inner: _Copier | None) -> _Copier:
    return list if inner is None else lambda value: [inner(item) for item in value]


def _of_dict(inner: _Copier | None) -> _Copier:
    return dict if inner is None else lambda value: {key: inner(item) for key, item in value.items()}
