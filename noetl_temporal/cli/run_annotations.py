"""What the events of a run say about it: its warnings, why it was stopped, and the run that it repeats."""

from __future__ import annotations

from collections.abc import Iterable

from noetl_temporal.cli.progress import Row, warning_text

__all__ = ["ANNOTATION_EVENTS", "RunAnnotations"]

ANNOTATION_EVENTS = ("warning", "playbook.started", "playbook.cancelled")
"""The types of the events that RunAnnotations reads."""

_TERMINATED = "the workflow was terminated: "


class RunAnnotations:
    """What the events of a run say about it.

    ``reason`` is why a person stopped the run. A rerun repeats the execution ``rerun_of`` from the step ``rerun_from``
    on; both are empty for other runs.
    """

    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.reason = self.rerun_of = self.rerun_from = ""
        self._warnings: dict[str, None] = {}
        self.read(rows)

    def read(self, rows: Iterable[Row]) -> None:
        """Read more events."""
        for row in rows:
            self._read(row)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings as ``file:line:col: warning: step: message``, each once, in the order of the events."""
        return tuple(self._warnings)

    def _read(self, row: Row) -> None:
        if row.event_type == "warning":
            self._warnings[warning_text(row)] = None
        elif row.event_type == "playbook.started":
            self.rerun_of, self.rerun_from = str(row.meta.get("rerun_of", "")), str(row.meta.get("rerun_from", ""))
        elif row.event_type == "playbook.cancelled":
            reason = row.meta.get("reason")
            self.reason = str((row.error or "").removeprefix(_TERMINATED) if reason is None else reason)
