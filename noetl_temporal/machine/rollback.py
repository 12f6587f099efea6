"""Copies a machine's state so that a fact can be rolled back.

JSON values are never changed in place, so the copy shares them; everything that the machine mutates is copied. The
types of the fields say which is which.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec

__all__ = ["copy_state"]

S = TypeVar("S", bound=msgspec.Struct)
_Copier = Callable[[Any], Any]


def copy_state(state: S) -> S:
    """A copy that shares no mutable part with ``state``."""
    return cast("S", _copy_struct(state))


def _copy_struct(value: msgspec.Struct) -> msgspec.Struct:
    return cast("msgspec.Struct", _struct_copier(type(value))(value))


@lru_cache
def _struct_copier(kind: type[msgspec.Struct]) -> _Copier:
    hints = get_type_hints(kind)
    copiers = {name: copier for name in kind.__struct_fields__ if (copier := _copier(hints[name])) is not None}

    def copy(value: msgspec.Struct) -> msgspec.Struct:
        changed = {name: copier(getattr(value, name)) for name, copier in copiers.items()}
        return msgspec.structs.replace(value, **changed)

    return copy


def _copier(hint: Any) -> _Copier | None:
    """How to copy a value of this type; None if it is immutable."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return _optional(arguments)
    if origin is list:
        return _of_list(_copier(arguments[0]))
    if origin is dict:
        return _of_dict(_copier(arguments[1]))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and not hint.__struct_config__.frozen:
        return _copy_struct
    return None


def _optional(arguments: tuple[Any, ...]) -> _Copier | None:
    """For a union: it has at most one mutable member type."""
    inner = next((copier for one in arguments if one is not NoneType and (copier := _copier(one)) is not None), None)
    return None if inner is None else lambda value: None if value is None else inner(value)


def _of_list(inner: _Copier | None) -> _Copier:
    return list if inner is None else lambda value: [inner(one) for one in value]


def _of_dict(inner: _Copier | None) -> _Copier:
    return dict if inner is None else lambda value: {key: inner(one) for key, one in value.items()}
