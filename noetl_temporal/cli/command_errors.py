"""Errors that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from noetl_temporal.cli.exits import UNKNOWN

if TYPE_CHECKING:
    from noetl_temporal.cli.run_report import RunSummary

__all__ = ["OutcomeUnknownError", "cause_of"]


class OutcomeUnknownError(click.ClickException):
    """A run was, or may have been, submitted, and its outcome is unknown; ``summary.reason`` says why."""

    exit_code = UNKNOWN

    def __init__(self, summary: RunSummary) -> None:
        super().__init__(
            f"{summary.reason}\nThe outcome of the run is unknown; to find out: noetl status {summary.execution_id}"
        )
        self.summary = summary


def cause_of(error: BaseException) -> BaseException:
    """Return the error inside the exception groups of task groups, if each group has only one; else the group."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    group = cast("BaseExceptionGroup[BaseException]", error)
    return cause_of(group.exceptions[0]) if len(group.exceptions) == 1 else group
