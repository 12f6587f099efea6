"""Lower a cursor: its statements become calls, each with a retry policy."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.graph import Cursor, Policy, Rule, Span, Task, Template, Value
from noetl_compiler.language import defaults

__all__ = ["lower_cursor"]

_ATTEMPTS = 8
"""Attempts of a claim or an acknowledgement: enough for a restart of the database."""

_ATTEMPTS_TO_RELEASE = 3
"""Few, because a run that is being stopped waits for the release."""

_ATTEMPTS_TO_RENEW = 1
"""One, because renewals are repeated anyway while the lease is needed."""


def lower_cursor(cursor: Cursor) -> Cursor:
    """Return the cursor with its defaults filled in and a retry policy for each statement."""
    limits = {name: getattr(cursor, name) or Value(default) for name, default in defaults.CLAIM.items()}
    return replace(
        cursor,
        config=Value({}),
        auth=None,
        claim=_lower_call(cursor.claim, _ATTEMPTS),
        renew=_lower_call(cursor.renew, _ATTEMPTS_TO_RENEW),
        ack=_lower_call(cursor.ack, _ATTEMPTS),
        release=_lower_call(cursor.release, _ATTEMPTS_TO_RELEASE),
        **limits,
    )


def _lower_call(task: Task | None, attempts: int) -> Task | None:
    return None if task is None else replace(task, policy=Policy((_retry_rule(task.span, attempts),), unmatched="fail"))


def _retry_rule(span: Span, attempts: int) -> Rule:
    """Return a rule that retries transient errors, such as a lost connection."""
    return Rule(
        "retry",
        span,
        on_status="error",
        when=Template("{{ error.retryable }}", span),
        attempts=Value(attempts),
        backoff="exponential",
        delay=Value(1),
        max_delay=Value(30),
        jitter=True,
    )
