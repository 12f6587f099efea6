"""A cursor as the graph has it: its statements are calls, with a policy of their own."""

from __future__ import annotations

from msgspec.structs import replace

from noetl_compiler.graph import Cursor, Policy, Rule, Span, Task, Template, Value
from noetl_compiler.language import defaults

__all__ = ["lower_cursor"]

_ATTEMPTS = 8
"""How often a claim or an acknowledgement is tried while its errors are retryable, long enough for a restart of the
database.
"""

_ATTEMPTS_TO_RELEASE = 3
"""The end of a run that stops waits for it."""

_ATTEMPTS_TO_RENEW = 1
"""Who needs the lease repeats the renewal."""


def lower_cursor(cursor: Cursor) -> Cursor:
    """Return the cursor with defaults filled in."""
    said = {name: getattr(cursor, name) or Value(default) for name, default in defaults.CLAIM.items()}
    return replace(
        cursor,
        config=Value({}),
        auth=None,
        claim=_lower_call(cursor.claim, _ATTEMPTS),
        renew=_lower_call(cursor.renew, _ATTEMPTS_TO_RENEW),
        ack=_lower_call(cursor.ack, _ATTEMPTS),
        release=_lower_call(cursor.release, _ATTEMPTS_TO_RELEASE),
        **said,
    )


def _lower_call(task: Task | None, attempts: int) -> Task | None:
    return None if task is None else replace(task, policy=Policy((_retry(task.span, attempts),), unmatched="fail"))


def _retry(span: Span, attempts: int) -> Rule:
    """Try again after what may pass, such as a lost connection."""
    return Rule(
        "retry",
        span,
        on="error",
        when=Template("{{ error.retryable }}", span),
        attempts=Value(attempts),
        backoff="exponential",
        delay=Value(1),
        max_delay=Value(30),
        jitter=True,
    )
