"""The SQL of the mirror: numbered migrations, and queries (``-- name: NAME``, then comments and the statement)."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

__all__ = ["migrations", "query"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_FILES = ("queries.sql", "event_rows.sql", "catalog.sql", "pruning.sql")


def migrations() -> list[tuple[str, str]]:
    """Return (file name, text) of every migration, in order."""
    files = [file for file in resources.files(__name__).iterdir() if re.match(r"\d{4}_\w+\.sql$", file.name)]
    return sorted((file.name, file.read_text()) for file in files)


def query(name: str) -> str:
    """Return the statement of that name. Raises KeyError."""
    return _queries()[name]


@cache
def _queries() -> dict[str, str]:
    queries: dict[str, str] = {}
    for file in _FILES:
        _, *parts = _NAME.split((resources.files(__name__) / file).read_text())
        queries |= {name: text.strip() for name, text in zip(parts[::2], parts[1::2], strict=True)}
    return queries
