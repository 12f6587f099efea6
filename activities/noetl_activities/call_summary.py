"""A short summary of a call for error messages."""

from __future__ import annotations

from noetl_activities.http.request import request_summary
from noetl_activities.sql import first_statement
from noetl_activities.tool import Json
from noetl_compiler.language.tools import SQL_KINDS

__all__ = ["call_summary"]

_MAX_STATEMENT_CHARS = 100
"""Maximum length of a statement in a summary."""


def call_summary(kind: str, config: dict[str, Json]) -> str:
    """Return the request without its query, or the first statement of the call; "" for other kinds of tools."""
    if kind == "http":
        return request_summary(config)
    if kind not in SQL_KINDS:
        return ""
    text = " ".join(first_statement(config).split())
    return text if len(text) <= _MAX_STATEMENT_CHARS else f"{text[: _MAX_STATEMENT_CHARS - 3]}..."
