"""What a tool call came to: one envelope for every tool (semantics.md 19)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

__all__ = ["LEVELS", "TOO_DEEP", "ErrorInfo", "Json", "Outcome"]

Json: TypeAlias = Any

LEVELS = 200
"""Of lists and maps in each other that the result of a call may have: masking, templates and the log walk through it,
and Python allows a walk some hundred steps."""

TOO_DEEP = f"the result has more than {LEVELS} levels of nested lists and maps"


class ErrorInfo(msgspec.Struct, frozen=True):
    """Why a call failed. ``kind`` is a short stable word (http, timeout, connection, sql, exception, config ...),
    ``code`` the tool's own code (``HTTP_503``, an SQLSTATE), ``status`` an HTTP status where there is one."""

    kind: str
    message: str
    code: str | None = None
    retryable: bool = False
    status: int | None = None
    retry_after: float | None = None
    """Seconds the server asked to wait, if it did (HTTP ``Retry-After``)."""


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """``status`` is always present. ``http``, ``pg`` and ``py`` are filled by their tool, on success and on error. The
    log of the run gets a warning of the text ``meta.warning``.
    """

    status: Literal["ok", "error"]
    result: Json = None
    error: ErrorInfo | None = None
    meta: dict[str, Json] = {}
    http: dict[str, Json] | None = None
    pg: dict[str, Json] | None = None
    py: dict[str, Json] | None = None
