"""Turns results and exceptions of tools and sinks into outcomes, because Temporal would retry exceptions forever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

import msgspec

from noetl_activities.credentials import Credentials
from noetl_activities.errors import FailedError, ToolError
from noetl_activities.non_finite import replace_non_finite
from noetl_activities.once import LedgerOutcome
from noetl_activities.outcome import MAX_LEVELS, TOO_DEEP, ErrorInfo, Outcome
from noetl_activities.scrub import TRUNCATION_MARGIN
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.limits import STORE_FROM_BYTES
from noetl_temporal.machine.call import PlainOutcome

__all__ = [
    "MAX_MESSAGE_CHARS",
    "Deadline",
    "is_large",
    "ledger_json",
    "limit_size",
    "plain_outcome",
    "refusal",
    "run_with_deadline",
    "timeout_message",
    "without_secrets",
]

MAX_MESSAGE_CHARS = 20_000
"""The most characters of an error, which may otherwise have megabytes in the record of each attempt."""

T = TypeVar("T")
_CONTAINERS = (dict, list)


class Deadline:
    """When an attempt times out: ``at`` on the event loop's clock, ``seconds`` after it began; None for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self.at: float | None = None

    def begin(self) -> None:
        """Start the time of the attempt."""
        self.at = None if self.seconds is None else asyncio.get_running_loop().time() + self.seconds


async def run_with_deadline(
    run: Callable[[], Awaitable[T]], deadline: Deadline, describe_call: Callable[[], str] = str
) -> tuple[T | None, PlainOutcome | None]:
    """Run a tool or a sink. Returns (result, None), or (None, outcome) if it fails or times out; ``describe_call``
    returns the name of the call for the message of a timeout. Raises only CancelledError.
    """
    timer = asyncio.timeout_at(deadline.at)
    try:
        async with timer:
            return await run(), None
    except TimeoutError as error:
        message = timeout_message(describe_call(), deadline.seconds or 0.0)
        return None, refusal("timeout", message if timer.expired() else f"TimeoutError: {error}")
    except FailedError as error:
        return None, plain_outcome(error.outcome)
    except ToolError as error:
        return None, refusal(error.kind, str(error) or (type(error).__doc__ or "").strip())
    except TemplateFailure as failure:
        return None, _template_failure(failure)
    except Exception as error:
        return None, refusal("internal", f"{type(error).__name__}: {error}")


def _template_failure(failure: TemplateFailure) -> PlainOutcome:
    """Return the error with the ``span`` of the template, at which its failure is reported."""
    outcome = refusal("template", failure.message)
    return outcome if failure.span is None else {**outcome, "span": msgspec.to_builtins(failure.span)}


def timeout_message(subject: str, seconds: float) -> str:
    """Return the message for a call that timed out; ``subject`` names the call, if that is known."""
    message = f"timed out after {seconds:g} s"
    return f"{subject}: {message}" if subject else message


def refusal(kind: str, message: str) -> PlainOutcome:
    """Return an error outcome of one of our own kinds."""
    return plain_outcome(Outcome("error", error=ErrorInfo(kind, _readable(message))))


def limit_size(outcome: PlainOutcome, limit: int) -> PlainOutcome:
    """Return the outcome if it is JSON of at most ``limit`` bytes, else an error that says why it is not."""
    try:
        size = len(msgspec.json.encode(outcome))
    except RecursionError:
        return refusal("too_large", "the result is nested too deeply for JSON: return a flatter one")
    except (TypeError, ValueError, OverflowError) as error:
        return refusal("internal", f"the result is not JSON: {error}")
    if size > limit:
        return refusal("too_large", f"the result has {size:,} bytes, over {limit:,}: {_REMEDY}")
    return outcome


def is_large(outcome: PlainOutcome) -> bool:
    """Whether the payload store may be needed for the outcome, or it cannot be encoded."""
    try:
        return len(msgspec.json.encode(outcome)) > STORE_FROM_BYTES // 2
    except (RecursionError, TypeError, ValueError, OverflowError):
        return True


def without_secrets(outcome: PlainOutcome, credentials: Credentials) -> PlainOutcome:
    """Return the outcome without the secrets of its call. Its own names, and the facts that the engine acts on, stay as
    they are: a password may be ``status`` or ``ok``.
    """
    error = outcome.get("error")
    if error is None and not credentials.has_secrets:
        return outcome
    scrubbed_outcome = _scrub_values(outcome, credentials, _ENVELOPE)
    if error is None:
        return scrubbed_outcome
    message = credentials.truncate(error["message"][: MAX_MESSAGE_CHARS + TRUNCATION_MARGIN], MAX_MESSAGE_CHARS)
    return {**scrubbed_outcome, "error": _scrub_values({**error, "message": message}, credentials, _FACTS)}


def _scrub_values(values: Mapping[str, Any], credentials: Credentials, but: frozenset[str]) -> dict[str, Any]:
    return {name: value if name in but else credentials.mask_secrets(value) for name, value in values.items()}


def ledger_json(outcome: PlainOutcome, credentials: Credentials, limit: int, used_attempts: int) -> str:
    """Encode the outcome for the ledger in the form of the report; ``used_attempts`` attempts have reported so far."""
    return msgspec.json.encode(
        LedgerOutcome(limit_size(without_secrets(outcome, credentials), limit), used_attempts)
    ).decode()


_ENVELOPE = frozenset({"status", "error"})
_FACTS = frozenset({"kind", "retryable", "status", "retry_after"})

_REMEDY = "store it in a sink or request less at a time, or set NOETL_POSTGRES, to store large values there"


def plain_outcome(outcome: Outcome) -> PlainOutcome:
    """Return the outcome as JSON, in which non-finite numbers are null; one that is nested too deeply is an error."""
    try:
        fields = cast("dict[str, Any]", msgspec.to_builtins(outcome, str_keys=True))
    except RecursionError:
        return refusal("too_large", TOO_DEEP)
    if _is_deeper(fields, MAX_LEVELS):
        return refusal("too_large", TOO_DEEP)
    warning = replace_non_finite(fields)
    return {**fields, "meta": {**fields.get("meta", {}), **warning}} if warning else fields


def _is_deeper(value: Any, levels: int) -> bool:
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
