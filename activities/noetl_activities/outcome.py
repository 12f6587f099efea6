"""The outcome of a tool call: one envelope for all tools (semantics.md 19)."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from noetl_compiler.language.error_kinds import is_retryable

__all__ = ["MAX_LEVELS", "TOO_DEEP", "ErrorInfo", "Json", "Outcome"]

Json: TypeAlias = Any

MAX_LEVELS = 200
"""Maximum nesting of lists and mappings in a result: templates and the log recurse into it, and Python limits
recursion.
"""

TOO_DEEP = f"the result has more than {MAX_LEVELS} levels of nested lists and mappings"


class ErrorInfo(msgspec.Struct, frozen=True):
    """Why a call failed.

    ``kind``: one of ``language.error_kinds``, or one that the tool defines. ``code``: the system's error code
    (``HTTP_503``, an SQLSTATE). ``status``: the HTTP status, if any. ``retryable`` is derived from kind and code; only
    tools that define kinds set it.
    """

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
    """The outcome of a call.

    ``http``, ``pg`` and ``py`` are set by their tool, on success and on error. ``meta.warning`` is written to the log
    of the run. ``set``: the variables that the call itself sets in ctx.
    """

    status: Literal["ok", "error"]
    result: Json = None
    error: ErrorInfo | None = None
    meta: dict[str, Json] = {}
    http: dict[str, Json] | None = None
    pg: dict[str, Json] | None = None
    py: dict[str, Json] | None = None
    set: dict[str, Json] = {}
