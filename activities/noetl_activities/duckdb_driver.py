"""DuckDB for the process that runs it: ``duckdb`` without what its package adds for programs.

Expressions, relations and data frames are Python code, whose import is most of what the start of a process costs. The
extension module, whose names the package repeats, has all that runs SQL. Where it is not found, as it is not part of
DuckDB's promises, the package itself is used.
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
