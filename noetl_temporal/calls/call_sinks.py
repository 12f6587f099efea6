"""Performs the sinks of a call, and reads and writes the ledger next to their rows (semantics.md 26, 26a).

The first transactional sink stores the outcome of the call in its transaction, unless the tool itself has stored it (a
SQL call). A later attempt reads that outcome instead of repeating the call, and runs the sinks that have not stored
their rows yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, NamedTuple, cast

import msgspec

from noetl_activities import sinks
from noetl_activities.credentials import Credentials
from noetl_activities.outcome_ledger import LedgerOutcome
from noetl_activities.sinks import Entry, OutcomeLookup, SinkRequest, Sinks, StoreResult
from noetl_activities.tool import Json, ToolContext
from noetl_compiler import templates
from noetl_compiler.language.sinks import TOOL_KINDS
from noetl_compiler.templates import TemplateFailure
from noetl_compiler.value_merge import select_names
from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.calls.mapped_rows import render_sink
from noetl_temporal.calls.tool_outcome import Deadline, ledger_json, run_with_deadline
from noetl_temporal.calls.tool_slots import tool_slot
from noetl_temporal.machine.call import PlainOutcome, SinkCall, SinkRecord, ToolCall
from noetl_temporal.machine.policy import allows

__all__ = ["CallSinks", "LookupResult", "SinkResults"]

Scope = Callable[[PlainOutcome], Mapping[str, Any]]
"""Returns the names that templates see when a call has this outcome."""


class LookupResult(NamedTuple):
    """The result of looking up a call in its ledgers: the stored ``outcome``, the ``failure`` of the lookup, or
    neither.
    """

    outcome: PlainOutcome | None = None
    failure: PlainOutcome | None = None


class SinkResults(NamedTuple):
    """The outcome of the call including its sinks, and a record of each sink."""

    outcome: PlainOutcome
    records: tuple[SinkRecord, ...]


class CallSinks:
    """The sinks of one attempt. The ``repetition`` of its ``log`` distinguishes calls with the same key.
    ``sink_writer`` stores the rows. ``limit`` is the maximum size of an outcome in the ledger, in bytes.
    """

    def __init__(
        self,
        call: ToolCall,
        log: CallLog,
        sink_writer: Sinks,
        credentials: Credentials,
        context: ToolContext,
        deadline: Deadline,
        limit: int,
    ) -> None:
        self._sink_writer = sink_writer
        self._call = call
        self._log = log
        self._credentials = credentials
        self._context = context
        self._deadline = deadline
        self._limit = limit

    # ---- before the call --------------------------------------------------------------------------------------------

    async def find_outcome(self) -> LookupResult:
        """Return the outcome that an earlier attempt has stored with its rows."""
        lookups: list[Json] = []
        for sink in self._call.sinks if self._call.outcome_to_store is None else ():
            try:
                config: dict[str, Json] = (
                    templates.render(select_names(sink.config, _location_keys(sink)), self._call.scope) or {}
                )
            except TemplateFailure:
                continue  # the location depends on the result: the ledger is read when the rows are stored
            if [sink.kind, sink.auth, config] in lookups:
                continue
            lookups.append([sink.kind, sink.auth, config])
            result = await self._look_up(sink, config)
            if result != LookupResult():
                return result
        return LookupResult()

    async def _look_up(self, sink: SinkCall, config: dict[str, Json]) -> LookupResult:
        call = self._call

        async def find() -> str | None:
            location: dict[str, Json] = await self._credentials.with_secrets(config)
            lookup = OutcomeLookup(sink.kind, location, sink.auth, call.key, self._log.repetition)
            return await self._sink_writer.find_outcome(lookup, self._context)

        text, failure = await run_with_deadline(find, self._deadline)
        if failure is not None:
            return LookupResult(failure=self._with_sink_name(sink, failure))
        return LookupResult(None if text is None else self._use_stored_outcome(text))

    def _use_stored_outcome(self, text: str) -> PlainOutcome:
        """Decode an outcome of the ledger, and add the attempts before it that have no record."""
        outcome = msgspec.json.decode(text, type=LedgerOutcome)
        self._log.add_unrecorded_attempts(outcome.used_attempts)
        return cast("PlainOutcome", outcome.outcome)

    # ---- after the call ---------------------------------------------------------------------------------------------

    async def perform(self, outcome: PlainOutcome, scope: Scope, is_in_ledger: bool) -> SinkResults:
        """Run the sinks in order, until one fails. ``is_in_ledger`` says whether the ledger has the outcome already."""
        records: list[SinkRecord] = []
        for sink in self._call.sinks if outcome["status"] == "ok" else ():
            start = self._log.now()
            is_recorded = is_in_ledger or self._call.outcome_to_store is not None
            entry_json = (
                None if is_recorded else ledger_json(outcome, self._credentials, self._limit, self._log.used_attempts)
            )
            work = partial(self._store, sink, outcome, scope, entry_json)
            stored_rows, failure = await run_with_deadline(work, self._deadline)
            if failure is not None:
                failure = self._with_sink_name(sink, failure)
                records.append(_failure_record(sink, start, self._log.now(), failure))
                return SinkResults(failure, tuple(records))
            if stored_rows is None:
                continue
            if stored_rows.existing_outcome is not None:
                return await self.perform(
                    self._use_stored_outcome(stored_rows.existing_outcome), scope, is_in_ledger=True
                )
            is_in_ledger = is_in_ledger or stored_rows.is_in_ledger
            records.append(_success_record(sink, start, self._log.now(), stored_rows))
        return SinkResults(outcome, tuple(records))

    async def _store(
        self, sink: SinkCall, outcome: PlainOutcome, scope: Scope, entry_json: str | None
    ) -> StoreResult | None:
        """Perform one sink; None if its guard is false."""
        names = scope(outcome)
        if not allows(sink.guard, "ok", names):
            return None
        entry = Entry(sink.key, self._log.repetition, self._call.key, entry_json, sink.replace_key)
        content = _default_content(self._call, outcome)
        config = await self._credentials.with_secrets(render_sink(sink.config, names, content), sink.kind)
        async with _sink_slot(sink.kind):
            request = SinkRequest(sink.kind, config, sink.mode, entry, content, sink.auth)
            return await self._sink_writer.store(request, self._context)

    def _with_sink_name(self, sink: SinkCall, failure: PlainOutcome) -> PlainOutcome:
        """Return the failure of a sink as that of its call, with the sink in the message and in ``meta``."""
        message = self._credentials.mask_secrets(str(failure["error"]["message"]))
        meta = {**failure.get("meta", {}), "sink": sink.key}
        return {**failure, "error": {**failure["error"], "message": f"sink {sink.kind}: {message}"}, "meta": meta}


def _location_keys(sink: SinkCall) -> tuple[str, ...]:
    return sinks.DATABASE_FIELDS.get(sink.kind, ())


def _sink_slot(kind: str) -> AbstractAsyncContextManager[object]:
    """Return a slot of the tool that the sink calls. The call of the sink has released its own slot."""
    if kind not in TOOL_KINDS:
        return nullcontext()
    from noetl_activities.sinks.tool_call import TOOLS

    return tool_slot(TOOLS[kind].spec)


def _default_content(call: ToolCall, outcome: PlainOutcome) -> Json:
    """Return what a sink stores by default: the body of an HTTP response, any other result as it is."""
    result: Json = outcome.get("result")
    if call.kind == "http" and call.outcome_to_store is None and isinstance(result, dict):
        return cast("dict[str, Json]", result).get("data")
    return result


def _success_record(sink: SinkCall, start: int, end: int, stored_rows: StoreResult) -> SinkRecord:
    return SinkRecord(
        kind=sink.kind,
        key=sink.key,
        status="ok",
        started=start,
        ended=end,
        rows=stored_rows.rows,
        table=stored_rows.table,
        duplicate=stored_rows.duplicate,
        warning=stored_rows.warning,
    )


def _failure_record(sink: SinkCall, start: int, end: int, failure: PlainOutcome) -> SinkRecord:
    message = str(failure["error"]["message"])
    return SinkRecord(sink.kind, sink.key, "error", start, end, error=message)
