"""The rows of one tool call: its attempts, their sinks, and the decisions of the policy.

A call is one activity with all its attempts: history has its input and, when it ends, a report with one record per
attempt. The rows of an attempt are, in this order:

    task.attempt.started   sink.started  sink.done|failed ...   task.attempt.done|failed   policy.task.evaluated

The parent of each is the task's ``task.started`` event. ``meta.retry.parent_event_id`` links an attempt to the first
one, and a page to the page before; the legacy view shows that as the parent. A call that only stores the items that
pages collected is not an attempt of the tool: only its sinks have rows.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from noetl_temporal.mirror.call import ActivityTimes, Call
from noetl_temporal.mirror.event_row import RowWriter, iso
from noetl_temporal.mirror.payloads import Json, as_mapping, as_text
from noetl_temporal.mirror.retry_config import REPEATS, source_value
from noetl_temporal.mirror.run_state import LastPage

__all__ = ["write_attempts"]

_END_MESSAGES = {
    "lost": ("worker_lost", "the attempt was lost with its worker"),
    "shutdown": ("shutdown", "the worker was stopped"),
    "paused": ("paused", "the call was paused"),
    "reset": ("reset", "the call was reset"),
    "cancelled": ("cancelled", "the call was cancelled"),
}
"""Kind and message of an attempt that ended before its tool returned."""

_SINK_FIELDS = ("kind", "key", "table", "rows", "duplicate", "warning")


def write_attempts(
    writer: RowWriter, call: Call, times: ActivityTimes, records: list[dict[str, Json]], outcome: Json
) -> None:
    """Write the rows of a call that ended. ``outcome`` is that of the last attempt; None if it is not known, a
    Reference if it is stored elsewhere.
    """
    last_pages = writer.state.last_pages
    last_page = last_pages.pop(call.sequence, LastPage())
    repeated_id = last_page.end_id
    for record, next_record in zip_longest(records, records[1:]):
        attempt = _Attempt(writer, call, times, record, repeated_id, last_page.calls, next_record)
        end_id = attempt.write_rows(outcome if next_record is None else None)
        repeated_id = repeated_id or attempt.start_id
        if record.get("do") == "again" and end_id is not None:
            last_pages[call.sequence] = LastPage(end_id, last_page.calls + record["number"])


class _Attempt:
    """Writes the rows of one record.

    ``repeated_id`` is the row to which ``meta.retry.parent_event_id`` refers: of the call's first attempt, or of the
    end of the previous page. ``earlier_calls`` is the number of calls of earlier pages, ``next_record`` the record of
    the next attempt: an attempt without an end ended when the next one started. ``start_id`` is the attempt's first
    row.
    """

    def __init__(
        self,
        writer: RowWriter,
        call: Call,
        times: ActivityTimes,
        record: dict[str, Json],
        repeated_id: int | None,
        earlier_calls: int,
        next_record: dict[str, Json] | None,
    ) -> None:
        self.writer, self.call, self.times, self.record, self.repeated_id = writer, call, times, record, repeated_id
        self.earlier_calls = earlier_calls
        self.is_last = next_record is None
        self.start = times.clamp(record["started"])
        end = record.get("ended") or (next_record["started"] if next_record else times.closed)
        self.end = max(self.start, times.clamp(end))
        self.start_id: int | None = None

    def write_rows(self, outcome: Json) -> int | None:
        """Write all rows; return the id of the row of the attempt's end, None if the call is no attempt."""
        sinks: list[dict[str, Json]] = self.record.get("sinks") or []
        if self.call.is_store and sinks:
            self._write_sinks(sinks)
            return None
        self.start_id = self._write_row(
            "task.attempt.started",
            self.start,
            "STARTED",
            context=self.call.context(),
            meta={"retry": self._retry_at_start()},
        )
        self._write_sinks(sinks)
        end_id = self._write_success(outcome) if self.record["status"] == "ok" else self._write_failure(outcome)
        if self.call.rules and self.record["status"] in ("ok", "error"):
            self._write_evaluation()
        return end_id

    def _write_row(
        self, type_: str, at: int, status: str, *, meta: dict[str, Json], kind: str = "", **columns: Any
    ) -> int:
        return self.writer.add_derived_row(
            type_,
            at,
            self.call.task,
            kind or self.call.kind,
            status,
            parent=self.call.parent,
            meta={**self.call.meta(), **meta},
            worker=self.record.get("worker") or self.times.worker,
            **columns,
        )

    def _write_success(self, outcome: Json) -> int:
        report = as_mapping(outcome)
        return self._write_row(
            "task.attempt.done",
            self.end,
            "COMPLETED",
            ends=self.start_id,
            duration=self._duration(),
            context=self._short_context(),
            result=report.get("result") if report is not None else outcome,
            meta={"retry": self._retry_at_end()},
        )

    def _write_failure(self, outcome: Json) -> int:
        error: dict[str, Json] = self.record.get("error") or {}
        end_kind, end_message = _END_MESSAGES.get(self.record["status"], (error.get("kind"), "error"))
        cause = {"kind": end_kind, "code": error.get("code")}
        return self._write_row(
            "task.attempt.failed",
            self.end,
            "FAILED" if self.record["status"] in ("error", "lost") else "CANCELLED",
            ends=self.start_id,
            duration=self._duration(),
            context=self._short_context(),
            result={"error": error} if error else None,
            meta={
                "retry": self._retry_at_end(),
                "error": {name: value for name, value in cause.items() if value is not None},
            },
            error=self._message(error.get("message"), end_message),
            stack_trace=error.get("traceback") or _traceback(outcome),
        )

    def _message(self, reported_message: str | None, end_message: str) -> str:
        match self.record["status"]:
            case "error":
                return reported_message or end_message
            case "lost" if reported_message and reported_message != end_message:
                return f"{end_message}: {reported_message}"
            case _:
                return end_message

    def _write_sinks(self, sinks: list[dict[str, Json]]) -> None:
        for sink in sinks:
            fields = {name: sink[name] for name in _SINK_FIELDS if name in sink}
            meta: dict[str, Json] = {"sink": {**fields, "attempt": self.record["number"]}}
            start, end = self.times.clamp(sink["started"]), self.times.clamp(sink["ended"])
            start_id = self._write_row("sink.started", start, "STARTED", meta=meta, kind=sink["kind"])
            type_, status = ("sink.done", "COMPLETED") if sink["status"] == "ok" else ("sink.failed", "FAILED")
            seconds = _duration(sink["started"], sink["ended"], end)
            self._write_row(
                type_,
                end,
                status,
                meta=meta,
                kind=sink["kind"],
                ends=start_id,
                duration=seconds,
                error=sink.get("error"),
            )

    def _write_evaluation(self) -> None:
        record = self.record
        meta: dict[str, Json] = {
            "rule": record.get("rule"),
            "do": record.get("do") or ("continue" if record["status"] == "ok" else None),
            "when": self.call.rule(record.get("rule")).get("when"),
            "delay": record.get("delay"),
            "exhausted": record.get("exhausted"),
            "indeterminate": record.get("indeterminate"),
            "attempt": record["number"],
        }
        fields = {name: value for name, value in meta.items() if value is not None}
        if record.get("do") in REPEATS and not record.get("exhausted"):
            fields["retry"] = self._next_attempt()
        self._write_row("policy.task.evaluated", self.end, "COMPLETED", meta=fields)

    # ---- meta -----------------------------------------------------------------------------------------------------

    def _retry_at_start(self) -> dict[str, Json]:
        """Return ``meta.retry`` of the start of an attempt (the worker's metadata in the loop-and-retry design)."""
        rule = self.call.repeating_rule(self.record.get("rule"))
        fields: dict[str, Json] = {
            "has_config": bool(rule),
            "attempt_number": self.record["number"],
            "call_number": self.earlier_calls + self.record["number"] if self.call.page is not None else None,
            "max_attempts": source_value(rule.get("attempts")),
            "retry_type": self._retry_type(rule) if rule else None,
            "parent_event_id": str(self.repeated_id) if self.repeated_id else None,
        }
        return {name: value for name, value in fields.items() if value is not None}

    def _retry_at_end(self) -> dict[str, Json]:
        """Return ``meta.retry`` of the end of an attempt."""
        do = self.record.get("do")
        will_retry = (do in REPEATS and not self.record.get("exhausted")) or not self.is_last
        return {**self._retry_at_start(), "will_retry": will_retry, **(self._backoff() if do == "retry" else {})}

    def _next_attempt(self) -> dict[str, Json]:
        """Return ``meta.retry`` of a decision to repeat: the next attempt or page (the queued job of the loop-and-retry
        design).
        """
        rule = self.call.rule(self.record.get("rule"))
        is_page = self.record["do"] == "again"
        fields: dict[str, Json] = {
            "type": self._retry_type(rule),
            "attempt_number": 1 + self.record["number"] + (self.earlier_calls if is_page else 0),
            "max_attempts": source_value(rule.get("attempts")),
            "parent_event_id": str(self.repeated_id or self.start_id),
        }
        fields |= {"continuation": "pagination"} if is_page else self._backoff()
        return {name: value for name, value in fields.items() if value is not None}

    def _backoff(self) -> dict[str, Json]:
        delay: float = self.record.get("delay") or 0.0
        return {"backoff_seconds": delay, "scheduled_at": iso(self.end + round(delay * 1000))}

    def _retry_type(self, rule: dict[str, Json]) -> str:
        """Return the type of the retry; a rule that polls retries a success."""
        polls = self.record["status"] == "ok" and self.record.get("do") == "retry"
        return "on_error" if rule.get("do") == "retry" and not polls else "on_success"

    def _short_context(self) -> dict[str, Json]:
        return {"retry_config": self.call.retry_config} if self.call.retry_config else {}

    def _duration(self) -> float | None:
        end = self.record.get("ended")
        return _duration(self.record["started"], end, self.end) if end else None


def _duration(start: int, end: int, row_time: int) -> float:
    """Return the duration in seconds: 0 if a clock was set back, at most the time from 1970 to ``row_time``."""
    return min(max(0, end - start), row_time) / 1000


def _traceback(outcome: Json) -> str | None:
    """Return the traceback that the python tool reports (semantics.md 19)."""
    report = as_mapping((as_mapping(outcome) or {}).get("py")) or {}
    return as_text(report.get("traceback"))
