"""A run whose outcome is not known: it was submitted, or may have been, and its end was not seen."""

from __future__ import annotations

import click

from noetl_temporal.cli.exits import UNKNOWN
from noetl_temporal.cli.run_report import RunSummary

__all__ = ["OutcomeUnknownError"]


class OutcomeUnknownError(click.ClickException):
    """``summary`` is what is known of it; its ``reason`` says why no more is."""

    exit_code = UNKNOWN

    def __init__(self, summary: RunSummary) -> None:
        super().__init__(
            f"{summary.reason}\nThe outcome of the run is unknown; to find out: noetl status {summary.execution_id}"
        )
        self.summary = summary
