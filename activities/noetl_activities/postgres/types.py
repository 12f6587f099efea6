"""Limits nested composite types in results of Postgres.

The driver requests the description of unknown types, and decodes their values by recursion in C. A server that
describes 40,000 composite types, each a field of the next, crashes the worker with a segmentation fault. Their values
contain no record type ids, so records.py does not count them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import asyncpg

from noetl_activities.errors import ConfigError

__all__ = ["MAX_NESTED_TYPES", "TypeDepths", "TypeLimitedConnection"]

MAX_NESTED_TYPES = 1_000
"""Maximum nesting of types, such as the row type of a table in the row type of another. A few levels are usual."""

_INNER_TYPE_FIELDS = ("basetype", "elemtype", "range_subtype")

if TYPE_CHECKING:
    _Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection


class TypeDepths:
    """The nesting of all types that the server has described. A type may contain any that was described before it."""

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}

    def is_exceeded(self, described_types: Iterable[Mapping[str, Any]]) -> bool:
        """Whether one of these types is nested too deeply. They are in the order in which the driver registers them."""
        for type_ in described_types:
            inner_oids = [*(type_[name] for name in _INNER_TYPE_FIELDS), *(type_["attrtypoids"] or ())]
            depth = 1 + max(self._depths.get(oid, 0) for oid in inner_oids)
            if depth > MAX_NESTED_TYPES:
                return True
            self._depths[type_["oid"]] = depth
        return False


class TypeLimitedConnection(_Connection):
    """Raises ConfigError for types that are nested too deeply, before the driver registers them."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._depths = TypeDepths()

    async def _introspect_types(self, typeoids: Any, *args: Any) -> Any:
        introspect_types = getattr(super(), "_introspect_types")  # noqa: B009 - the type stubs lack it
        described_types, statement = cast(
            "tuple[list[Mapping[str, Any]], Any]", await introspect_types(typeoids, *args)
        )
        if self._depths.is_exceeded(described_types):
            raise ConfigError(f"the result has over {MAX_NESTED_TYPES:,} nested types: select their fields")
        return described_types, statement
