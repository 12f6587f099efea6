"""The kinds of DuckDB errors. DuckDB has no SQLSTATEs, so its exceptions are mapped to the classes of Postgres."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from noetl_compiler.language.error_kinds import SQL_PREFIX

__all__ = ["PROCESS_ENDED", "duckdb_error_kind"]

PROCESS_ENDED = "ProcessEnded"
"""The error code if the DuckDB process ended during a call."""

_INTERNAL = "XX"
_CLASSES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "0A": ("NotImplementedException", "NotSupportedError"),
        "22": (
            "ConversionException",
            "DataError",
            "InvalidInputException",
            "InvalidTypeException",
            "OutOfRangeException",
            "SequenceException",
            "TypeMismatchException",
        ),
        "23": ("ConstraintException", "IntegrityError"),
        "2B": ("DependencyException",),
        "40": ("TransactionException",),
        "42": ("BinderException", "CatalogException", "ParserException", "PermissionException", "SyntaxException"),
        "53": ("OutOfMemoryException",),
        "55": ("ResourceInUseException",),
        "57": ("InterruptException",),
        "58": ("HTTPException", "IOException"),
    }
)
_CLASS_OF = {name: class_ for class_, names in _CLASSES.items() for name in names}


def duckdb_error_kind(code: str) -> str:
    """Return the error kind for a class of DuckDB exceptions."""
    if code == PROCESS_ENDED:
        return "connection"
    return SQL_PREFIX + _CLASS_OF.get(code, _INTERNAL)
