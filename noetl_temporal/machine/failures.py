"""Makes outcomes and failures with their span in the playbook."""

from __future__ import annotations

from noetl_compiler.graph import Json, SourceRef, Span
from noetl_compiler.language.error_kinds import is_retryable
from noetl_compiler.templates import TemplateFailure
from noetl_temporal.machine.call import PlainOutcome
from noetl_temporal.machine.failure_log import Failure

__all__ = ["cancelled_outside", "error_outcome", "failed_by_rule", "failure_at", "kind_of", "template_outcome"]

MESSAGE_LENGTH = 1000
KIND_LENGTH = 40
"""Maximum length of the texts of a failure in characters: a run keeps many failures."""


def error_outcome(kind: str, message: str) -> PlainOutcome:
    """Return an error that the machine found."""
    return {"status": "error", "error": {"kind": kind, "message": message, "retryable": is_retryable(kind)}}


def template_outcome(failure: TemplateFailure) -> PlainOutcome:
    """Return the error of a template that could not be evaluated."""
    return error_outcome("template", failure.message)


def cancelled_outside(operation: str) -> PlainOutcome:
    """Return the error of a call or loop that was cancelled, but not by the run."""
    return error_outcome("cancelled", f"the {operation} was cancelled from outside the run")


def failed_by_rule(outcome: PlainOutcome, message: str) -> PlainOutcome:
    """Return the outcome of a call as the failure that a rule turns it into."""
    return {**outcome, **error_outcome("policy", message)}


def kind_of(outcome: PlainOutcome) -> str:
    """Return the kind of the error of an outcome, empty if there is none."""
    error: dict[str, Json] = outcome.get("error") or {}
    return str(error.get("kind") or "")


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
    """Return a failure with its span and a shortened message."""
    error: dict[str, Json] = outcome.get("error") or {}
    return Failure(
        step=step,
        message=_truncate(str(error.get("message") or "failed")),
        task=task,
        file=source.file,
        line=span.line,
        col=span.col,
        kind=kind_of(outcome)[:KIND_LENGTH],
        iteration=iteration,
        run=run,
    )


def _truncate(message: str) -> str:
    return message if len(message) <= MESSAGE_LENGTH else f"{message[: MESSAGE_LENGTH - 3]}..."
