"""Converts results and exceptions of tools and sinks to outcomes, because Temporal would retry exceptions forever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from noetl_activities.credentials import Credentials
from noetl_activities.errors import FailedError, ToolError
from noetl_activities.non_finite import replace_non_finite
from noetl_activities.outcome import MAX_LEVELS, TOO_DEEP, ErrorInfo, Outcome
from noetl_activities.outcome_ledger import LedgerOutcome
from noetl_activities.scrub import TRUNCATION_MARGIN
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.limits import STORE_FROM_BYTES
from noetl_temporal.machine.call import PlainOutcome

__all__ = [
    "MAX_MESSAGE_CHARS",
    "Deadline",
    "failed_outcome",
    "is_large",
    "ledger_json",
    "limit_size",
    "plain_outcome",
    "run_with_deadline",
    "timeout_message",
    "without_secrets",
]

MAX_MESSAGE_CHARS = 20_000
"""The maximum length of an error's message, which would otherwise be in the record of each attempt, with megabytes."""

T = TypeVar("T")
_CONTAINERS = (dict, list)


class Deadline:
    """The time at which an attempt times out: ``at`` on the event loop's clock, ``seconds`` after ``begin``; None
    without a timeout.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.at: float | None = None

    def begin(self) -> None:
        """Start the timeout."""
        self.at = None if self.seconds is None else asyncio.get_running_loop().time() + self.seconds


async def run_with_deadline(
    run: Callable[[], Awaitable[T]], deadline: Deadline, describe_call: Callable[[], str] = str
) -> tuple[T | None, PlainOutcome | None]:
    """Run a tool or a sink. Returns (result, None), or (None, outcome) if it fails or times out. ``describe_call``
    returns a description of the call for the message of a timeout. Raises only CancelledError.
    """
    timer = asyncio.timeout_at(deadline.at)
    try:
        async with timer:
            return await run(), None
    except TimeoutError as error:
        message = timeout_message(describe_call(), deadline.seconds or 0.0)
        return None, failed_outcome("timeout", message if timer.expired() else f"TimeoutError: {error}")
    except FailedError as error:
        return None, plain_outcome(error.outcome)
    except ToolError as error:
        return None, failed_outcome(error.kind, str(error) or (type(error).__doc__ or "").strip())
    except TemplateFailure as failure:
        return None, _template_failure(failure)
    except Exception as error:
        return None, failed_outcome("internal", f"{type(error).__name__}: {error}")


def _template_failure(failure: TemplateFailure) -> PlainOutcome:
    """Return the error with the ``span`` of the template, at which its failure is reported."""
    outcome = failed_outcome("template", failure.message)
    return outcome if failure.span is None else {**outcome, "span": msgspec.to_builtins(failure.span)}


def timeout_message(subject: str, seconds: float) -> str:
    """Return the message for a call that timed out; ``subject`` describes the call, "" if that is not known."""
    message = f"timed out after {seconds:g} s"
    return f"{subject}: {message}" if subject else message


def failed_outcome(kind: str, message: str) -> PlainOutcome:
    """Return the outcome of a call that failed with an error of this kind, in the shape of a tool's outcome."""
    return plain_outcome(Outcome("error", error=ErrorInfo(kind, _readable(message))))


def limit_size(outcome: PlainOutcome, limit: int) -> PlainOutcome:
    """Return the outcome if it is JSON of at most ``limit`` bytes, else a failed outcome with the reason."""
    try:
        size = len(msgspec.json.encode(outcome))
    except RecursionError:
        return failed_outcome("too_large", "the result is nested too deeply for JSON: return a flatter one")
    except (TypeError, ValueError, OverflowError) as error:
        return failed_outcome("internal", f"the result is not JSON: {error}")
    if size > limit:
        return failed_outcome("too_large", f"the result has {size:,} bytes, over {limit:,}: {_REMEDY}")
    return outcome


def is_large(outcome: PlainOutcome) -> bool:
    """Whether the payload store may be needed for the outcome, or it cannot be encoded."""
    try:
        return len(msgspec.json.encode(outcome)) > STORE_FROM_BYTES // 2
    except (RecursionError, TypeError, ValueError, OverflowError):
        return True


def without_secrets(outcome: PlainOutcome, credentials: Credentials) -> PlainOutcome:
    """Return the outcome without the secrets of its call. The names of its fields, and the fields that the engine
    evaluates, are not masked: a password may be ``status`` or ``ok``.
    """
    error = outcome.get("error")
    if error is None and not credentials.has_secrets:
        return outcome
    scrubbed_outcome = _scrub_values(outcome, credentials, _UNMASKED_FIELDS)
    if error is None:
        return scrubbed_outcome
    message = credentials.truncate(error["message"][: MAX_MESSAGE_CHARS + TRUNCATION_MARGIN], MAX_MESSAGE_CHARS)
    masked_error = _scrub_values({**error, "message": message}, credentials, _UNMASKED_ERROR_FIELDS)
    return {**scrubbed_outcome, "error": masked_error}


def _scrub_values(values: Mapping[str, Any], credentials: Credentials, unmasked: frozenset[str]) -> dict[str, Any]:
    return {name: value if name in unmasked else credentials.mask_secrets(value) for name, value in values.items()}


def ledger_json(outcome: PlainOutcome, credentials: Credentials, limit: int, used_attempts: int) -> str:
    """Return the entry of the ledger as JSON, with the outcome as in the report. ``used_attempts`` is the number of
    attempts that have counted against a rule so far.
    """
    return msgspec.json.encode(
        LedgerOutcome(limit_size(without_secrets(outcome, credentials), limit), used_attempts)
    ).decode()


_UNMASKED_FIELDS = frozenset({"status", "error"})
_UNMASKED_ERROR_FIELDS = frozenset({"kind", "retryable", "status", "retry_after"})

_REMEDY = "store it in a sink or request less at a time, or set NOETL_POSTGRES, to store large values there"


def plain_outcome(outcome: Outcome) -> PlainOutcome:
    """Return the outcome of a tool as JSON, with null for non-finite numbers; a failed outcome if it is nested too
    deeply.
    """
    try:
        fields = cast("dict[str, Any]", msgspec.to_builtins(outcome, str_keys=True))
    except RecursionError:
        return failed_outcome("too_large", TOO_DEEP)
    if _is_deeper_than(fields, MAX_LEVELS):
        return failed_outcome("too_large", TOO_DEEP)
    warning = replace_non_finite(fields)
    return {**fields, "meta": {**fields.get("meta", {}), **warning}} if warning else fields


def _is_deeper_than(value: Any, levels: int) -> bool:
    """Whether lists and mappings are nested more than ``levels`` levels deep."""
    level: list[Any] = [value]
    while level and levels >= 0:
        levels -= 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if outer.__class__ is dict else outer)
            if inner.__class__ in _CONTAINERS
        ]
    return bool(level)


def _readable(text: str) -> str:
    """Replace lone surrogates, which JSON cannot represent."""
    return text.encode("utf-8", "replace").decode()
