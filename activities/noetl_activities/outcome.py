"""What a tool call came to: one envelope for every tool (semantics.md 19)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from noetl_compiler.language.error_kinds import is_retryable

__all__ = ["LEVELS", "TOO_DEEP", "ErrorInfo", "Json", "Outcome"]

Json: TypeAlias = Any

LEVELS = 200
"""Of lists and maps in each other that the result of a call may have: masking, templates and the log walk through it,
and Python allows a walk some hundred steps."""

TOO_DEEP = f"the result has more than {LEVELS} levels of nested lists and maps"


class ErrorInfo(msgspec.Struct, frozen=True):
    """Why a call failed. ``kind`` says what happened, by a word of ``language.error_kinds`` or a tool's own. ``code``
    is the system's own (``HTTP_503``, an SQLSTATE), ``status`` an HTTP status where there is one. ``retryable`` follows
    from kind and code; only a tool with kinds of its own sets it."""

    kind: str
    message: str
    code: str | None = None
    retryable: bool | None = None
    status: int | None = None
    retry_after: float | None = None
    """Seconds the server asked to wait, if it did (HTTP ``Retry-After``)."""

    def __post_init__(self) -> None:
        if self.retryable is None:
            msgspec.structs.force_setattr(self, "retryable", is_retryable(self.kind, self.code))


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """``status`` is always present. ``http``, ``pg`` and ``py`` are filled by their tool, on success and on error. The
    log of the run gets a warning of the text ``meta.warning``. ``set`` are names that the call itself sets in ctx.
    """

    status: Literal["ok", "error"]
    result: Json = None
    error: ErrorInfo | None = None
    meta: dict[str, Json] = {}
    http: dict[str, Json] | None = None
    pg: dict[str, Json] | None = None
    py: dict[str, Json] | None = None
    set: dict[str, Json] = {}
