"""What the account of a run takes from its event log: how many rows it has, its warnings, why it was stopped."""

from __future__ import annotations

from collections.abc import Iterable

from noetl_temporal.cli.progress import Row, warning_text

__all__ = ["FACT_EVENTS", "LogFacts"]

FACT_EVENTS = ("warning", "playbook.cancelled")
"""The rows from which facts are read."""

_TERMINATED = "the workflow was terminated: "


class LogFacts:
    """``events`` counts rows, ``warnings`` has each text once, ``reason`` is what who stopped the run said."""

    def __init__(self, rows: Iterable[Row] = (), events: int = 0) -> None:
        self.events = events
        self.reason = ""
        self._warnings: dict[str, None] = {}
        for row in rows:
            self.read(row)

    @property
    def warnings(self) -> tuple[str, ...]:
        """``file:line:col: warning: step: message``, in the order they came."""
        return tuple(self._warnings)

    def read(self, row: Row) -> None:
        """Take in what the row says, without counting it."""
        if row.event_type == "warning":
            self._warnings[warning_text(row)] = None
        elif row.event_type == "playbook.cancelled":
            terminated = (row.error or "").removeprefix(_TERMINATED) if row.meta.get("reason") is None else None
            self.reason = str(row.meta.get("reason") or terminated or "")
