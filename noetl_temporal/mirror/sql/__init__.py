"""The SQL of the mirror: named queries of ``queries.sql``, and the migrations in their order."""

from __future__ import annotations

import re
from importlib.resources import files

__all__ = ["MIGRATIONS", "QUERIES"]

_HERE = files(__package__ or __name__)


def _queries(text: str) -> dict[str, str]:
    """``-- name --`` begins a query."""
    parts = re.split(r"^-- (\w+) --$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


QUERIES = _queries((_HERE / "queries.sql").read_text("utf-8"))
MIGRATIONS = tuple(
    (entry.name, entry.read_text("utf-8"))
    for entry in sorted(_HERE.iterdir(), key=lambda entry: entry.name)
    if re.fullmatch(r"\d{4}_\w+\.sql", entry.name)
)
