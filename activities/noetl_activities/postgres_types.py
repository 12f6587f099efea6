"""Types that a server describes, nested without an end.

The driver asks for the description of a type that it does not know, and decodes a value of it by a call within a call
of C, one for each type in it. A server that describes 40,000 composite types, of which each is a field of the next,
ends the worker with a segmentation fault. Their values name no record, so postgres_records.py counts none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import asyncpg

from noetl_activities.errors import ConfigError

__all__ = ["MOST_NESTED_TYPES", "TypeDepths", "TypeLimitedConnection"]

MOST_NESTED_TYPES = 1_000
"""In each other, as a table's type is in that of another. People nest a few."""

_INNER = ("basetype", "elemtype", "range_subtype")

if TYPE_CHECKING:
    _Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    _Connection = asyncpg.Connection


class TypeDepths:
    """How many types are in each other, of all that were described so far: a later one may have an earlier one in it,
    also one of the same id.
    """

    def __init__(self) -> None:
        self._depths: dict[int, int] = {}

    def is_exceeded(self, described: Iterable[Mapping[str, Any]]) -> bool:
        """Whether one of these, which come in the order in which the driver takes them, is nested too deep."""
        for one in described:
            inner = [*(one[name] for name in _INNER), *(one["attrtypoids"] or ())]
            depth = 1 + max(self._depths.get(oid, 0) for oid in inner)
            if depth > MOST_NESTED_TYPES:
                return True
            self._depths[one["oid"]] = depth
        return False


class TypeLimitedConnection(_Connection):
    """Raises ConfigError for types that are nested too deep, before the driver knows them."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._depths = TypeDepths()

    async def _introspect_types(self, typeoids: Any, *within: Any) -> Any:
        introspect = getattr(super(), "_introspect_types")  # noqa: B009 - the stubs do not have it
        described, statement = cast("tuple[list[Mapping[str, Any]], Any]", await introspect(typeoids, *within))
        if self._depths.is_exceeded(described):
            raise ConfigError(f"the result has over {MOST_NESTED_TYPES:,} nested types: select their fields")
        return described, statement
