"""Copies a machine's state so that a fact can be rolled back.

JSON values are never changed in place, so the copy shares them; everything that the machine mutates is copied. The
types of the fields say which is which.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["copy_state"]

S = TypeVar("S", bound=msgspec.Struct)
_Copier = Callable[[Any], Any]


def copy_state(state: S) -> S:
    """A copy that shares no mutable part with ``state``."""
    return cast("S", _struct_copier(type(state))(state))


@lru_cache
def _struct_copier(kind: type[msgspec.Struct]) -> _Copier:
    hints = get_type_hints(kind)
    copiers = {name: copier for name in kind.__struct_fields__ if (copier := _copier(hints[name])) is not None}

    if not copiers:
        return copy

    def copied(value: msgspec.Struct) -> msgspec.Struct:
        new = copy(value)
        for name, copier in copiers.items():
            found = getattr(value, name)
            if found is not None:
                setattr(new, name, copier(found))
        return new

    return copied


def _copier(hint: Any) -> _Copier | None:
    """How to copy a value of this type; None if it is immutable."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _of_union(arguments)
    if origin is list:
        return _of_list(_copier(arguments[0]))
    if origin is dict:
        return _of_dict(_copier(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and not hint.__struct_config__.frozen:
        return _struct_copier(hint)
    return None


def _of_union(arguments: tuple[Any, ...]) -> _Copier | None:
    """Of None or something else; None itself is not copied."""
    return next((copier for one in arguments if one is not NoneType and (copier := _copier(one)) is not None), None)


def _of_list(inner: _Copier | None) -> _Copier:
    return list if inner is None else lambda value: [inner(one) for one in value]


def _of_dict(inner: _Copier | None) -> _Copier:
    return dict if inner is None else lambda value: {key: inner(one) for key, one in value.items()}
