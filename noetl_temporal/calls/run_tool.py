"""Runs tools as activities.

How it works. An activity execution is one tool call with all its attempts. Each attempt:

    slot ──► ledger ──► tool ──► sinks ──► rules ──► the report is stored, and returned
               │ has the outcome    ▲          └──► retry: an ApplicationError with the delay, so Temporal itself waits
               └────────────────────┘

A slot is one of the tool's concurrent calls in this process (tool_slots.py); the timeout of the call starts there.

Attempts leave no events in history, so the record of each is passed in heartbeats to the next (attempt_log.py), and the
report contains all of them.

An attempt that is interrupted before the tool has returned ends immediately. One that is interrupted later completes
its sinks and reports (interruptions.py). An attempt after an interrupted one first checks for a cancel that is in
transit (cancel_transit.py).
A report that is too large for history is stored by the activity, with retries (value_store.py), so an unavailable
payload store never makes the tool run twice.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from noetl_activities import sinks
from noetl_activities.call_summary import call_summary
from noetl_activities.credentials import Credentials, CredentialSource
from noetl_activities.outcome import Outcome
from noetl_activities.outcome_ledger import LedgerResult, LedgerSlot, stores_outcomes
from noetl_activities.sinks import Sinks
from noetl_activities.tool import Credential, Json, OutputStream, Request, Tool
from noetl_compiler import templates
from noetl_temporal.calls.attempt_end import AttemptEnd, end_interrupted, leave_to_another_worker
from noetl_temporal.calls.attempt_log import AttemptLog
from noetl_temporal.calls.call_log import CallLog
from noetl_temporal.calls.call_sinks import CallSinks
from noetl_temporal.calls.cancel_transit import wait_for_cancel_transit
from noetl_temporal.calls.interruptions import run_despite_pause, wait_until_finished
from noetl_temporal.calls.leases import run_with_lease
from noetl_temporal.calls.task_output import TaskOutput
from noetl_temporal.calls.tool_outcome import (
    Deadline,
    failed_outcome,
    is_large,
    ledger_json,
    limit_size,
    plain_outcome,
    run_with_deadline,
    without_secrets,
)
from noetl_temporal.calls.tool_slots import tool_slot
from noetl_temporal.machine.call import PlainOutcome, ToolCall, ToolReport
from noetl_temporal.machine.scope import Chain, call_names
from noetl_temporal.naming import activity_type
from noetl_temporal.observability.tracing import attempt_span
from noetl_temporal.payloads.codec import UnreadValue
from noetl_temporal.payloads.encryption_codec import UndecryptableValue
from noetl_temporal.payloads.stored_values import load_result
from noetl_temporal.payloads.value_store import ValueStore, retry_until_done

__all__ = ["MAX_LOST", "Attempt", "tool_activity"]

MAX_LOST = 5
"""Attempts that may be lost with their worker. One more fails the call, because the call may be what kills the workers.
"""

TRACEBACK_LIMIT = 5
"""The number of innermost stack frames that are logged for an internal error."""

_log = logging.getLogger(__name__)


def tool_activity(
    tool: Tool, source: CredentialSource, values: ValueStore, client: Client | None = None
) -> Callable[..., Any]:
    """Return the activity of a tool: ``noetl.<kind>``. ``values`` stores large results; with ``client`` an attempt
    after an interrupted one checks whether a cancel is in transit.
    """

    @activity.defn(name=activity_type(tool.spec.kind))
    async def run(call: ToolCall) -> ToolReport:
        log = AttemptLog(values)
        tool_called = asyncio.Event()
        with log.heartbeating():
            try:
                readable_call = await _read_call(call, values, log)
                if isinstance(readable_call, str):
                    return ToolReport(failed_outcome("internal", readable_call))
                credentials = Credentials(source, readable_call.secrets_key)
                attempt = Attempt(tool, readable_call, credentials, log, values, tool_called, client)
                return await (
                    attempt.run() if readable_call.idempotent else run_despite_pause(attempt.run(), tool_called)
                )
            except asyncio.CancelledError:
                return await end_interrupted(log, tool_called.is_set())

    return run


async def _read_call(
    call: ToolCall | UnreadValue | UndecryptableValue, values: ValueStore, log: CallLog
) -> ToolCall | str:
    """Return the call, read from the payload store with retries if necessary; a message if the store does not have it
    any more. Raises ApplicationError if this worker lacks the encryption key.
    """
    if isinstance(call, ToolCall):
        return call
    if isinstance(call, UndecryptableValue):
        await leave_to_another_worker(log, call)
    try:
        return await retry_until_done("the call cannot be read", lambda: values.read(call, ToolCall))
    except LookupError as error:
        return str(error)


class _Context:
    """Implements noetl_activities.tool.ToolContext for one attempt."""

    def __init__(self, log: CallLog, credentials: Credentials, output: TaskOutput) -> None:
        self._log = log
        self._credentials = credentials
        self._output = output

    @property
    def attempt(self) -> int:
        return self._log.attempt_number

    def heartbeat(self) -> None:
        self._log.send_heartbeat()

    async def credential(self, auth: Json) -> Credential:
        return await self._credentials.resolve(auth)

    async def secret(self, name: str, entry_kind: str, config: dict[str, Json]) -> str:
        return await self._credentials.reference(name, entry_kind, config)

    def truncate(self, text: str, limit: int) -> str:
        return self._credentials.truncate(text, limit)

    def output(self, stream: OutputStream, text: str) -> None:
        self._output.feed(stream, text)


class _CallResult(NamedTuple):
    """The outcome of a call before its sinks and rules.

    ``is_reused``: it was read from the ledger. ``is_in_ledger``: the ledger has it now. ``is_refused``: the tool was
    not called because of earlier attempts, so another attempt would be refused too.
    """

    outcome: PlainOutcome
    is_reused: bool = False
    is_in_ledger: bool = False
    is_refused: bool = False


@dataclass
class Attempt:
    """One attempt of a call, in an activity of its own or in a frame. ``tool_called`` is set when the tool is called.
    With a ``client`` the attempt checks whether a cancel is in transit. ``sink_writer`` stores the rows of its sinks.
    """

    tool: Tool
    call: ToolCall
    credentials: Credentials
    log: CallLog
    values: ValueStore
    tool_called: asyncio.Event
    client: Client | None = None
    sink_writer: Sinks = sinks

    def __post_init__(self) -> None:
        call = self.call
        self._limit = self.tool.spec.timeout if call.timeout is None else call.timeout
        self._output = TaskOutput(call, self.log, self.credentials, self.values.dsn)
        self._context = _Context(self.log, self.credentials, self._output)
        self._deadline = Deadline(self._limit)
        self._sinks = CallSinks(
            call, self.log, self.sink_writer, self.credentials, self._context, self._deadline, self.values.limit
        )
        self._end = AttemptEnd(call, self.log, self.values, self._scope)

    async def run(self) -> ToolReport:
        """Return the report that ends the call. Raises ApplicationError if there is to be another attempt.

        An exception because of a bug ends the call as well, as Temporal would repeat it endlessly. Its message is not
        logged: it may contain a secret.
        """
        try:
            with attempt_span(self.call, self.log):
                return await self._run()
        except ApplicationError:
            raise
        except Exception as error:
            name = type(error).__name__
            locations = "".join(traceback.format_tb(error.__traceback__, limit=-TRACEBACK_LIMIT))
            _log.error("%s: %s in the code that handles the call\n%s", self.call.id, name, locations)
            return self._internal_error(f"{name} in the code that handles the call: the worker's log has its location")

    async def _run(self) -> ToolReport:
        async with nullcontext() if self.call.outcome_to_store is not None else tool_slot(self.tool.spec):
            self._deadline.begin()
            result = await self._call()
        work = self._finish(result)
        return await (wait_until_finished(asyncio.create_task(work)) if self._may_await(result) else work)

    def _may_await(self, result: _CallResult) -> bool:
        """Whether the end of the attempt may await I/O, and so needs a task of its own, which costs as much as the
        call.
        """
        return bool(self.call.sinks) or self.log.attempt_number > 1 or is_large(result.outcome)

    def _internal_error(self, message: str) -> ToolReport:
        outcome = failed_outcome("internal", message)
        self.log.end_attempt(status="error", error=outcome["error"], is_called=self.tool_called.is_set())
        return ToolReport(outcome, attempts=self.log.records, counts=self.log.counts, is_decided=False)

    # ---- the call -------------------------------------------------------------------------------------------------

    async def _call(self) -> _CallResult:
        if self.call.outcome_to_store is not None:
            return await self._result_to_store(self.call.outcome_to_store)
        stored = await self._sinks.find_outcome()
        if stored.outcome is not None:
            return _CallResult(stored.outcome, is_reused=True, is_in_ledger=True)
        if stored.failure is not None:
            return _CallResult(stored.failure)
        refused_outcome = self._refused_outcome()
        if refused_outcome is not None:
            return await self._find_stored_result() or _CallResult(refused_outcome, is_refused=True)
        if self.client is not None and self.log.follows_interruption:
            info = activity.info()
            await wait_for_cancel_transit(self.client, info.workflow_id or "", info.activity_id)
        if not self.call.idempotent:
            self.log.record_attempt()
        self.tool_called.set()
        async with self._output:
            result, failure = await run_with_deadline(self._run_with_lease, self._deadline, self._summary)
        return result or _CallResult(failure or {})

    def _summary(self) -> str:
        return call_summary(self.call.kind, self.call.config)

    async def _result_to_store(self, outcome: PlainOutcome) -> _CallResult:
        try:
            stored_outcome = await retry_until_done(
                "the result cannot be read", lambda: load_result(outcome, self.values)
            )
        except LookupError as error:
            return _CallResult(failed_outcome("internal", str(error)))
        return _CallResult(stored_outcome)

    async def _run_with_lease(self) -> _CallResult:
        return await run_with_lease(self.call.lease, self.log.now(), self.credentials, self._context, self._run_tool)

    async def _run_tool(self) -> _CallResult:
        if not stores_outcomes(self.tool):
            return _CallResult(plain_outcome(await self.tool.run(await self._request(), self._context)))
        return self._use_tool_outcome(
            await self.tool.run_with_ledger(await self._request(), self._context, self._ledger_slot())
        )

    async def _find_stored_result(self) -> _CallResult | None:
        """Return the outcome that the tool itself has stored for a call that must not be repeated, if any."""
        tool = self.tool
        if not stores_outcomes(tool):
            return None

        async def find() -> LedgerResult | None:
            return await tool.find_outcome(await self._request(), self._context, self._ledger_slot())

        outcome, failure = await run_with_deadline(find, self._deadline)
        if failure is not None:
            return _CallResult(failure)
        return None if outcome is None else self._use_tool_outcome(outcome)

    def _use_tool_outcome(self, result: LedgerResult) -> _CallResult:
        """Return the outcome of the tool, which may come from its ledger, and add the attempts before it that have no
        record.
        """
        self.log.add_unrecorded_attempts(result.used_attempts)
        return _CallResult(plain_outcome(result.outcome), result.is_reused, result.is_in_ledger)

    def _ledger_slot(self) -> LedgerSlot:
        return LedgerSlot(self.call.key, self.log.repetition, self._ledger_json)

    def _ledger_json(self, outcome: Outcome) -> str:
        return ledger_json(plain_outcome(outcome), self.credentials, self.values.limit, self.log.used_attempts)

    def _refused_outcome(self) -> PlainOutcome | None:
        """Return the error of a call whose tool must not be called again because of lost attempts; None otherwise."""
        lost_count = self.log.earlier_counts.lost
        if self.log.is_in_doubt and not self.call.idempotent:
            message = "an attempt ended before its tool returned: it is unknown whether the call took effect"
            return failed_outcome("unknown_outcome", message)
        if lost_count > MAX_LOST:
            return failed_outcome("worker_lost", f"{lost_count} workers were lost while running this call")
        return None

    async def _request(self) -> Request:
        """Return the request to the tool, in which references to secrets are replaced by their values."""
        call = self.call
        return Request(
            kind=call.kind,
            config=await self.credentials.with_secrets(call.config, call.kind),
            input=await self.credentials.with_secrets(call.input),
            auth=call.auth,
            timeout=self._limit,
            connect_timeout=call.connect_timeout,
            read_timeout=call.read_timeout,
            key=call.key,
            repetition=self.log.repetition,
            idempotency_header=call.idempotency_key,
            execution_id=str(call.execution_id),
        )

    # ---- after the call -------------------------------------------------------------------------------------------

    async def _finish(self, result: _CallResult) -> ToolReport:
        outcome = without_secrets(result.outcome, self.credentials)
        sink_results = await self._sinks.perform(outcome, self._scope, result.is_in_ledger)
        outcome = limit_size(without_secrets(sink_results.outcome, self.credentials), self.values.limit)
        return await self._end.conclude(
            outcome,
            may_retry=not result.is_refused,
            sinks=sink_results.records,
            is_called=self.tool_called.is_set() and not result.is_reused,
            is_reused=result.is_reused,
        )

    def _scope(self, outcome: PlainOutcome) -> Mapping[str, Any]:
        """Return the names that rules and sinks see. A call that only stores has the outcome of a collected page."""
        call = self.call
        kind = call.kind if call.outcome_to_store is None else "collected"
        names = call_names(
            call.names, call.step, kind, outcome, self.log.used_attempts, call.page or 1, lambda: call.scope
        )
        clock = {"now": templates.Clock(self.log.now())}
        return Chain(clock, call.scope, names) if call.is_guarded else Chain(names, clock, call.scope)
