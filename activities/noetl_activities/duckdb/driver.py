"""Imports DuckDB without the Python part of its package, for the processes that run SQL.

Importing the Python code for expressions, relations and data frames takes most of the start time of a process. The
extension module has everything to run SQL. It is not part of DuckDB's public API, so the package is used if it is
missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__all__ = ["duckdb"]

if TYPE_CHECKING:
    import duckdb
else:
    try:
        import _duckdb as duckdb
    except ImportError:
        import duckdb
