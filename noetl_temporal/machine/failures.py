"""What went wrong, as an outcome and at its place in the playbook."""

from __future__ import annotations

from noetl_compiler.graph import Json, SourceRef, Span
from noetl_compiler.language.error_kinds import is_retryable
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.failure_log import Failure

__all__ = ["cancelled_outside", "error_outcome", "failed_by_rule", "failure_at", "template_outcome"]

MESSAGE_LENGTH = 1000
KIND_LENGTH = 40
"""Characters of a failure's texts that are kept: a run remembers many of them."""


def error_outcome(kind: str, message: str) -> PlainOutcome:
    """An error of the machine's own."""
    return {"status": "error", "error": {"kind": kind, "message": message, "retryable": is_retryable(kind)}}


def template_outcome(failure: TemplateFailure) -> PlainOutcome:
    """A template that has no value."""
    return error_outcome("template", failure.message)


def cancelled_outside(what: str) -> PlainOutcome:
    """A call or loop that ended as cancelled although the run did not ask for it."""
    return error_outcome("cancelled", f"the {what} was cancelled from outside the run")


def failed_by_rule(outcome: PlainOutcome, message: str) -> PlainOutcome:
    """What a call came to, as the failure that a rule makes of it."""
    return {**outcome, **error_outcome("policy", message)}


def failure_at(
    source: SourceRef,
    step: str,
    outcome: PlainOutcome,
    span: Span,
    *,
    run: str = "",
    task: str | None = None,
    iteration: int | None = None,
) -> Failure:
    """A failure with its place, its message cut to what is kept of one."""
    error: dict[str, Json] = outcome.get("error") or {}
    return Failure(
        step=step,
        message=_cut(str(error.get("message") or "failed")),
        task=task,
        file=source.file,
        line=span.line,
        col=span.col,
        kind=str(error.get("kind") or "")[:KIND_LENGTH],
        iteration=iteration,
        run=run,
    )


def _cut(message: str) -> str:
    return message if len(message) <= MESSAGE_LENGTH else f"{message[: MESSAGE_LENGTH - 3]}..."
